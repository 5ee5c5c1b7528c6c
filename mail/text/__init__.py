"""Reading mail: pure functions from a Gmail message resource to values, without I/O or models."""
