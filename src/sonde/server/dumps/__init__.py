"""Presents a dump on disk as a run, and checks it."""
