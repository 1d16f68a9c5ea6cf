"""Whole programs, run as they are."""
