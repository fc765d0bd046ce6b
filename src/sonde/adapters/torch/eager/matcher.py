"""Loads the native matcher, if it was built, and makes its nodes.

``SONDE_MATCHER=python`` switches it off.
"""

from __future__ import annotations

import importlib
import logging
import os
from functools import cache
from types import ModuleType
from typing import Final

import torch

from sonde.adapters.torch import private
from sonde.adapters.torch.eager.op_calls import function_of
from sonde.adapters.torch.eager.op_tree import OpRecord, StepInput, TensorRef
from sonde.adapters.torch.tensors.view import kernel_codes

logger = logging.getLogger("sonde.capture")

INTERFACE: Final = 9
"""Increased with every change of the native module's Python interface.

``native/generate_constants.py`` compiles it into the module; a module with another number is not
used.
"""

_VIEWED = (torch.complex64, torch.complex128, torch.float32, torch.float64)


def load() -> ModuleType | None:
    """The module ``_match``; None if ops are to be recognised in Python."""
    if os.environ.get("SONDE_MATCHER") == "python":
        return None
    return _built()


@cache
def _built() -> ModuleType | None:
    try:
        module = importlib.import_module("sonde.adapters.torch.eager._match")
    except ImportError:
        return None
    if getattr(module, "INTERFACE", 0) != INTERFACE:
        logger.warning(
            "%s was built from other sources than Sonde's Python code and is not used, "
            "which is slower; install Sonde again",
            module.__file__,
        )
        return None
    with private.unobserved():
        samples = [torch.empty(3, dtype=dtype, device="cpu") for dtype in kernel_codes()]
        module.probe(private.stable_functions(), samples, sample_views())
    module.learn_ref_layout(TensorRef, StepInput)
    return module


def sample_views() -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]]:
    """Of each dtype a plain tensor, a negated view of it and, if complex, a conjugated one."""
    plain = [torch.empty(3, dtype=dtype, device="cpu") for dtype in _VIEWED]
    return [
        (each, private.negated_view(each), each.conj() if each.is_complex() else None)
        for each in plain
    ]


def add_node(native: ModuleType, record: OpRecord) -> None:
    """Make the matcher's node for ``record``, below that of its parent."""
    func = record.func
    record.native = native.Node(
        record,
        func,
        function_of(func) if type(func) is private.OpOverload else func,
        record.scope,
        record.depth,
        record.code,
        record.last,
        record.in_refs,
        record.sources,
        record.outs,
        record.returned,
        tuple(leaf for _, leaf, _ in record.leaves),
        bool(record.writes),
        record.info.is_collective,
    )
    if record.parent is not None:
        record.parent.native.add(record.native)
