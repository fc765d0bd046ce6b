"""Keeps the study on disk and lists it."""
