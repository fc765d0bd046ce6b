"""Presents tensors to sinks: views, tokens, lent memory, and the native fast path."""
