"""Defines the endpoints, one file per subject."""
