"""Runs epochs and steps: Model, Loop, batches, evaluation, progress."""
