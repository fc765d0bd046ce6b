"""Consumers of op calls that write files: tensors, statistics, overflows, failures, step ends."""
