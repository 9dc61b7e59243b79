"""Where the two phases of inexact damped Newton meet, and the errors up to which each is claimed: numbers alone.

In standard scaling: lambda = lambda_g, s = ||eps||_G and theta = (1 + lambda) s, as in ``theory.damped_newton``.
"""

from __future__ import annotations

__all__ = ["PHASE_ONE_THETA", "PHASE_TWO_BELOW", "PHASE_TWO_ERROR"]

PHASE_TWO_BELOW = 1 / 6  # the lambda at which the phases of the paper's proof meet
PHASE_TWO_ERROR = 0.02  # the s up to which lambda+ <= 2 lambda^2 + 1.75 s is claimed
PHASE_ONE_THETA = 0.069  # decrease of at least 0.01 a step: omega(1/6) - omega_*(0.069) = 0.01002
