"""Monitors a torch training: computes signals before each optimizer step and acts on triggers."""
