"""Observes the calls of the training loop: clear, backward, unscale, clip, step, scheduler."""
