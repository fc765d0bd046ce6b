"""The private parts of torch that the monitor needs, checked when this module is imported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from sonde.core import version_probe

version_probe.require("guarding", ("torch:_foreach_norm", "torch:_foreach_copy_"))

foreach_norm: Callable[..., Sequence[torch.Tensor]] = getattr(torch, "_foreach_norm")  # noqa: B009
"""The L2 norms of several tensors, in one call."""

foreach_copy: Callable[..., Any] = getattr(torch, "_foreach_copy_")  # noqa: B009
"""Copies several tensors to others, in one call."""
