"""Statistics of thousands of steps: SQL, ready views, series, and matrices of layers by steps."""
