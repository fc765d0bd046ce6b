"""Holds the trainings that are connected, one run per training, one rank per process."""
