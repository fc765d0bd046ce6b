"""The private part of torch that drawing a network needs, checked when it is imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from sonde.core import version_probe

version_probe.require("the graph of a summary", ("torch.utils._pytree:tree_map_only",))

map_tensors: Callable[[type[torch.Tensor], Callable[[torch.Tensor], Any], Any], Any] = (
    torch.utils._pytree.tree_map_only
)
"""Applies a function to every tensor in nested lists, tuples, dicts and registered classes."""
