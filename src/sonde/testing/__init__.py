"""A simulated rank and a sample graph, for tests of the debugger's server."""
