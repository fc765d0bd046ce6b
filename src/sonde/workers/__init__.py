"""Runs one function on many pieces of work: in this process, in several, or on a Ray cluster."""
