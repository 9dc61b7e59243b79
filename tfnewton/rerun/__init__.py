"""CHAPTERS AS PROGRAMS: the parameters that each takes, and the one command line."""
