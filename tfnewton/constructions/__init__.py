"""HOW a transformer computes it: functions that return a Transformer with explicit weights."""
