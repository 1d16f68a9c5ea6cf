"""Training loops of one's own, with a GradientTape: proved, taken over, rewritten."""
