"""A fit in a process of its own."""
