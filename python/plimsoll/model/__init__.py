"""A live Keras model: what it is, its state, and sessions that hold it."""
