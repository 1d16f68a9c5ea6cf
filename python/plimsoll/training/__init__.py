"""Calls that train, evaluate and predict, as Keras's own do."""
