"""WHAT is computed: the reference algorithms, plain functions on arrays."""
