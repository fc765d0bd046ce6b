"""The health of a run over its steps: signals, and statistics of layers."""
