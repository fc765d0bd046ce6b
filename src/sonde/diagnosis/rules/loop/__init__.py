"""Rules about the training loop: order of calls, modes, rates."""
