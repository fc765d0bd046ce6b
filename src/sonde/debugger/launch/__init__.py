"""Starts and finds servers of this user."""
