"""Merges the ranks and micro-batches of a run, to compare runs with different layouts."""
