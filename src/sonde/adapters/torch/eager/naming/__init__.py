"""The names of ops: scopes of modules, variables that hold them, and source lines."""
