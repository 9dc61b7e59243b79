"""THE ONE MODEL, eq:TF: named rows, linear maps, layers, and the transformer that they make."""
