"""Writes files in the background, whole or not at all."""
