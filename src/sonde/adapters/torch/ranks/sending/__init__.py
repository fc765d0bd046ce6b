"""Sends the reports of a rank to the server of its job, and starts that server."""
