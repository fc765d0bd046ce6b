"""Rules about samples, labels and loaders."""
