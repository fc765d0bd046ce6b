"""Saves, loads and resumes trainings."""
