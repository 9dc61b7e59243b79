"""Every plot of the book: one function a figure, returning a matplotlib Figure."""
