"""What grades the coursework: the checks of each assignment, and the process in which submissions are run.

Students get none of it. In a master a hidden test is one call of a function of this package, so what a student reads in
the feedback is what that function prints, never how it found out.
"""
