"""SCALAR FUNCTIONS by ReLU units: what is approximated, with which knots, by which units."""
