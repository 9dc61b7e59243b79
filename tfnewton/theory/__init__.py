"""HOW FAST, HOW WELL: each stated bound as a function, with its checks and certificates."""
