"""Speaks with the server: the socket, the session on it, and what its messages ask for."""
