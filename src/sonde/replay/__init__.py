"""Captured steps on disk: their layout and manifest, and whose files they are. No framework."""
