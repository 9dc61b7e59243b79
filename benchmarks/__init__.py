"""Side-by-side timings and memory of the constructions: ``python -m benchmarks``. Never run as tests."""
