"""``sonde.print``, ``sonde.print_grad`` and ``Print``: printing that works in compiled code too.

In eager code the text is written at once. Where torch makes a graph of the code, a call becomes one
op of that graph, ``sonde::print``, which the compiler keeps, in order, because it is registered as
an op with effects. What is known while the graph is made (texts, constants) is part of the op;
tensors and numbers that differ from step to step are its inputs. See ``printing/op``.
"""

from __future__ import annotations

import sys
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.weak import WeakTensorKeyDictionary

from sonde.adapters.torch import private
from sonde.adapters.torch.eager.op_schema import tensors_in
from sonde.adapters.torch.printing.op import (
    FLOAT,
    INTEGER,
    LINE_END,
    TENSOR,
    TEXT,
    emit,
    show,
    site_of,
    traced_site,
)
from sonde.core.errors import UsageError

_UNLIMITED = 0


@dataclass(eq=False, kw_only=True)
class Print:
    """``sonde.print`` as an operator: made in ``__init__``, called in ``forward``.

    The options are those of ``sonde.print``.
    """

    summary: bool = False
    first_n: int | None = None
    every_n: int = 1
    to: str = "stdout"

    def __post_init__(self) -> None:
        _check(self.first_n, self.every_n, self.to)

    def __call__(self, *values: Any) -> None:
        _print(values, self.summary, self.first_n, self.every_n, self.to)


def print(
    *values: Any,
    summary: bool = False,
    first_n: int | None = None,
    every_n: int = 1,
    to: str = "stdout",
) -> None:
    """Print texts, tensors and numbers, each on lines of its own, also in compiled code.

    ``summary`` prints one line about each tensor instead of its elements. ``first_n`` limits the
    number of prints, ``every_n`` prints only every n-th call; both count per call site in the
    code. ``to="log"`` writes to the logger ``sonde.print``. Results and gradients stay as they
    are, and nothing is kept.
    """
    _check(first_n, every_n, to)
    _print(values, summary, first_n, every_n, to)


def print_grad(
    tensor: torch.Tensor,
    name: str = "",
    *,
    summary: bool = False,
    first_n: int | None = None,
    every_n: int = 1,
    to: str = "stdout",
) -> torch.Tensor:
    """Print the gradient of ``tensor`` when backward reaches it; returns a tensor to go on with.

    The result has the values of ``tensor``. Only for a parameter in compiled code must it be used:
    there the gradient of what is computed from the result is printed. A tensor that needs no
    gradient (``torch.no_grad``) is returned as it is and nothing is printed.
    """
    _check(first_n, every_n, to)
    if not tensor.requires_grad:
        return tensor
    words = [TEXT + (f"gradient of {name}:" if name else "gradient:"), LINE_END, TENSOR, LINE_END]
    is_compiling = torch.compiler.is_compiling()
    if is_compiling:
        site = traced_site() if first_n is not None or every_n != 1 else ""
        if tensor.is_leaf:
            # A hook on the parameter itself would be added again in every step.
            tensor = tensor.view_as(tensor)
    else:
        site = site_of(sys._getframe(1))
        if tensor.is_leaf and not _is_first(tensor, (name, site)):
            return tensor
    options = summary, _UNLIMITED if first_n is None else first_n, every_n, to == "log", site

    def hook(gradient: torch.Tensor) -> torch.Tensor | None:
        write = emit if is_compiling or private.is_tracing() else show
        write([gradient], [], words, *options)
        return gradient if is_compiling else None

    tensor.register_hook(hook)  # type: ignore[no-untyped-call]
    return tensor


def _print(
    values: tuple[Any, ...], summary: bool, first_n: int | None, every_n: int, to: str
) -> None:
    tensors: list[torch.Tensor] = []
    integers: list[int] = []
    words: list[str] = []
    is_limited = first_n is not None or every_n != 1
    is_compiling = torch.compiler.is_compiling()
    for value in values:
        if is_compiling:
            _collect_traced(value, tensors, integers, words)
        else:
            _collect(value, tensors, words)
        words.append(LINE_END)
    site = ""
    if is_limited:
        site = traced_site() if is_compiling else site_of(sys._getframe(2))
    shown_at_most = _UNLIMITED if first_n is None else first_n
    write = emit if is_compiling or private.is_tracing() else show
    write(tensors, integers, words, summary, shown_at_most, every_n, to == "log", site)


def _collect(value: Any, tensors: list[torch.Tensor], words: list[str]) -> None:
    """Collect the tensors in ``value``; everything else becomes text."""
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        words.append(TENSOR)
    elif isinstance(value, np.ndarray) and value.ndim and value.dtype.kind in "biuf":
        with private.unobserved():
            tensors.append(torch.tensor(value))
        words.append(TENSOR)
    elif isinstance(value, (list, tuple)) and any(True for _ in tensors_in(value)):
        ends = "[]" if isinstance(value, list) else "()"
        words.append(TEXT + ends[0])
        for number, item in enumerate(value):
            if number:
                words.append(TEXT + ", ")
            _collect(item, tensors, words)
        words.append(TEXT + ends[1])
    else:
        words.append(TEXT + str(value))


def _collect_traced(
    value: Any, tensors: list[torch.Tensor], integers: list[int], words: list[str]
) -> None:
    """Collect the tensors and numbers in ``value`` while a graph is traced: numbers may differ in
    the next step."""
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        words.append(TENSOR)
    elif isinstance(value, str):
        words.append(TEXT + value)
    elif isinstance(value, bool) or value is None:
        words.append(TEXT + str(value))
    elif isinstance(value, int):
        integers.append(value)
        words.append(INTEGER)
    elif isinstance(value, float):
        # As a tensor, so that another value does not cause a recompilation.
        tensors.append(torch.full((), value, dtype=torch.float64))
        words.append(FLOAT)
    elif isinstance(value, (list, tuple)):
        _collect_items(value, tensors, integers, words)
    elif isinstance(value, (np.ndarray, np.generic)):
        tensors.append(torch.as_tensor(value))
        words.append(TENSOR if value.ndim else FLOAT)
    else:
        words.append(TEXT + str(value))


def _collect_items(
    items: Any, tensors: list[torch.Tensor], integers: list[int], words: list[str]
) -> None:
    """The items of a list or tuple, in brackets."""
    is_size = isinstance(items, torch.Size)
    ends = ("torch.Size([", "])") if is_size else ("[", "]") if isinstance(items, list) else "()"
    words.append(TEXT + ends[0])
    first = True
    for item in items:
        if not first:
            words.append(TEXT + ", ")
        first = False
        if isinstance(item, str):
            words.append(TEXT + repr(item))
        else:
            _collect_traced(item, tensors, integers, words)
    if isinstance(items, tuple) and not is_size and len(items) == 1:
        words.append(TEXT + ",")
    words.append(TEXT + ends[1])


def _check(first_n: int | None, every_n: int, to: str) -> None:
    if first_n is not None and first_n < 1:
        raise UsageError(f"first_n must be 1 or more (got {first_n})", slug="print-option")
    if every_n < 1:
        raise UsageError(f"every_n must be 1 or more (got {every_n})", slug="print-option")
    if to != "stdout" and to != "log":
        raise UsageError(f"to must be 'stdout' or 'log' (got {to!r})", slug="print-option")


_printed_leaves: MutableMapping[torch.Tensor, set[tuple[str, str]]] = WeakTensorKeyDictionary()
"""The parameters whose gradients are printed, with the calls that asked for it; parameters live
from step to step, and one hook for each call is enough."""


def _is_first(leaf: torch.Tensor, call: tuple[str, str]) -> bool:
    """Whether this call asks for the gradient of ``leaf`` for the first time."""
    calls = _printed_leaves.setdefault(leaf, set())
    if call in calls:
        return False
    calls.add(call)
    return True
