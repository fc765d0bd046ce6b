"""Observes losses: calls of functions, the graph of a loss, the ops of a run."""
