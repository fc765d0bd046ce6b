"""Two runs side by side: graphs paired, tensors, losses, parameters and checkpoints compared."""
