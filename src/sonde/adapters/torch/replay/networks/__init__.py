"""Finds the networks of a captured step in a fresh process."""
