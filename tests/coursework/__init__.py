"""Tests of the coursework, and the answers that they hand in."""
