"""Dumps by msprobe (MindStudio Probe): ``step0/rank0/dump.json`` and ``dump_tensor_data``."""
