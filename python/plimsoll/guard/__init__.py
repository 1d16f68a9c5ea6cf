"""Keras's own training steps inside the limit."""
