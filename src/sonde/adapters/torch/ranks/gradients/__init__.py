"""The gradients of a step: what a rank computes, exchanges and clips."""
