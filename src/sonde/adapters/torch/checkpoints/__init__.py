"""Reads the checkpoint files of torch without executing what they contain."""
