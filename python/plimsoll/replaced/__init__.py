"""Calls of Keras's methods that are done in their place."""
