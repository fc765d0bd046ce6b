"""Observes states and modes of modules: kept, loaded, frozen, normalised, hooked."""
