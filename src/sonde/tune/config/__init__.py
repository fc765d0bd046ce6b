"""Reads and checks the configuration of a search: the YAML file and the search space."""
