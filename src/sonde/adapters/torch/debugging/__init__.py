"""Connects a training to the debugger: steps, losses, optimizers, ranks, launching."""
