"""Runs a module again on one batch, and puts everything back."""
