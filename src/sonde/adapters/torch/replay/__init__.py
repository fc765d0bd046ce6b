"""Keeps what is needed to execute the running step again, and executes it."""
