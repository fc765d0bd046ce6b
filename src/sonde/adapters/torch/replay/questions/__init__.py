"""Questions about a captured step, each answered by executing it again in some way."""
