"""The private part of torch that ``sonde.train`` needs, checked when it is imported."""

from __future__ import annotations

from typing import Any

import torch

from sonde.core import version_probe

version_probe.require("sonde.train", ("torch._C:_disabled_torch_function_impl",))

plain_results: Any = torch._C._disabled_torch_function_impl
"""As ``__torch_function__`` of a tensor subclass: operations on it return plain tensors."""
