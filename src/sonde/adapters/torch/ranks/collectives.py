"""Reports the collectives that the program calls: before they run, so before a hang."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from sonde.adapters.torch import private
from sonde.adapters.torch.calling_line import calling_line
from sonde.adapters.torch.ranks.collective_results import hashes, part_hashes, sums
from sonde.adapters.torch.ranks.layout import group_name
from sonde.adapters.torch.ranks.recorded_collectives import LineMarks
from sonde.core.patching import wrap
from sonde.ranks.report import CollectiveReport, CollectiveResult, RankReport


@dataclass(frozen=True, slots=True)
class _Signature:
    """Where a collective has its arguments: names and positions, -1 if it has none."""

    kind: str
    given: tuple[str, int]
    got: tuple[str, int] | None = None
    root: tuple[str, int] | None = None
    reduce: tuple[str, int] | None = None
    group: tuple[str, int] = ("group", -1)


_SIGNATURES = {
    "all_reduce": _Signature(
        "all_reduce", ("tensor", 0), ("tensor", 0), reduce=("op", 1), group=("group", 2)
    ),
    "broadcast": _Signature(
        "broadcast", ("tensor", 0), ("tensor", 0), root=("src", 1), group=("group", 2)
    ),
    "all_gather": _Signature("all_gather", ("tensor", 1), ("tensor_list", 0), group=("group", 2)),
    "all_gather_into_tensor": _Signature(
        "all_gather_into_tensor", ("input_tensor", 1), ("output_tensor", 0), group=("group", 2)
    ),
    "reduce": _Signature(
        "reduce", ("tensor", 0), root=("dst", 1), reduce=("op", 2), group=("group", 3)
    ),
    "reduce_scatter_tensor": _Signature(
        "reduce_scatter_tensor", ("input", 1), reduce=("op", 2), group=("group", 3)
    ),
    "all_to_all_single": _Signature("all_to_all", ("input", 1), ("output", 0), group=("group", 4)),
    "barrier": _Signature("barrier", ("", -1), group=("group", 0)),
}


_OUTPUT_SIZES = ("output_split_sizes", 2)
_INPUT_SIZES = ("input_split_sizes", 3)
"""Arguments of ``all_to_all_single``."""


@dataclass(frozen=True, slots=True)
class _Given:
    """What a rank gives to a collective: hashes, ``sums``, and the number of a single one."""

    hashes: tuple[int, ...]
    sums: tuple[float, ...]
    number: float | None


@dataclass(slots=True, eq=False)
class UnfinishedCollectives:
    """The asynchronous reductions of the running step, on CPUs: elsewhere one that the program has
    waited for may still run, in order, on the device. Used from the training thread."""

    _works: list[tuple[Any, str]] = field(default_factory=list)

    def add(self, work: Any, tensor: Any, line: str) -> None:
        if isinstance(tensor, torch.Tensor) and tensor.device.type == "cpu" and work is not None:
            self._works.append((work, line))

    def take(self) -> tuple[str, ...]:
        """The lines of those that have not ended; forgets all."""
        works, self._works = self._works, []
        return tuple(dict.fromkeys(line for work, line in works if not work.is_completed()))


@dataclass(slots=True, eq=False)
class CollectiveCalls:
    """Wraps the functions of ``torch.distributed``. ``send`` takes a report; ``step`` is the
    running step; ``is_compared``: whether results are compared in it. ``reduced`` is called when
    the ranks have reduced a single number: with that of this rank, the mean, and the line.
    ``given`` gets each tensor that is given to a collective that reduces, in compared steps;
    ``unfinished`` the asynchronous ones among those collectives."""

    send: Callable[[RankReport], None]
    step: Callable[[], int]
    is_compared: Callable[[], bool]
    reduced: Callable[[float, float, str], None]
    given: Callable[[Any], None]
    unfinished: UnfinishedCollectives
    marks: LineMarks
    shield: Any
    _sequences: dict[str, int] = field(default_factory=dict)
    _depth: int = 0

    def install(self, undo: ExitStack) -> None:
        for name, signature in _SIGNATURES.items():
            for owner in (dist, distributed_c10d):
                if hasattr(owner, name):
                    patch = wrap(owner, name, self._reporting(signature), undo)
                    private.hide_from_compiler(patch.replacement)

    def _reporting(
        self, signature: _Signature
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def collective(*args: Any, **kwargs: Any) -> Any:
                if self._depth or not dist.is_initialized():
                    return original(*args, **kwargs)
                call: tuple[str, int] | None = None
                given: _Given | None = None
                with self.shield, private.unobserved():
                    call = self._begin(signature, args, kwargs)
                    if call is not None and self._wants_result(signature, kwargs):
                        given = _given(signature, args, kwargs)
                self._depth += 1
                try:
                    result = original(*args, **kwargs)
                finally:
                    self._depth -= 1
                if kwargs.get("async_op") and signature.reduce is not None and self.is_compared():
                    with self.shield:
                        tensor = _argument(signature.given, args, kwargs)
                        self.unfinished.add(result, tensor, calling_line())
                if given is not None and given.hashes and call is not None:
                    with self.shield, private.unobserved():
                        self._ended(signature, args, kwargs, call, given)
                return result

            return collective

        return make

    def _ended(
        self,
        signature: _Signature,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        call: tuple[str, int],
        given: _Given,
    ) -> None:
        """Report the result of a collective."""
        assert signature.got is not None
        tensor = _argument(signature.got, args, kwargs)
        got = _hashes(signature, tensor, _OUTPUT_SIZES, args, kwargs)
        is_reduced = signature.kind == "all_reduce"
        self.send(
            CollectiveResult(
                dist.get_rank(),
                *call,
                given.hashes,
                got,
                given.sums,
                sums(tensor) if is_reduced else (),
            )
        )
        if given.number is not None:
            self._reduced(signature, args, kwargs, given.number)

    def _reduced(
        self, signature: _Signature, args: tuple[Any, ...], kwargs: dict[str, Any], given: float
    ) -> None:
        group = _argument(signature.group, args, kwargs)
        op = _reduce_op(signature, args, kwargs)
        parts = dist.get_world_size(group) if op == "SUM" else 1
        if op in ("SUM", "AVG"):
            got = float(_argument(("tensor", 0), args, kwargs))
            self.reduced(given, got / parts, calling_line())

    def _wants_result(self, signature: _Signature, kwargs: dict[str, Any]) -> bool:
        return signature.got is not None and self.is_compared() and not kwargs.get("async_op")

    def _begin(
        self, signature: _Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[str, int] | None:
        """Report the call; its group and sequence number, None if this rank is not in the group."""
        group = _argument(signature.group, args, kwargs)
        if group is dist.GroupMember.NON_GROUP_MEMBER:
            return None
        name = group_name(group)
        sequence = self._sequences[name] = self._sequences.get(name, -1) + 1
        tensor = _argument(signature.given, args, kwargs)
        root = -1
        if signature.root is not None:
            found = _argument(signature.root, args, kwargs)
            root = found if isinstance(found, int) else -1
        is_tensor = isinstance(tensor, torch.Tensor)
        line = calling_line()
        self.marks.add(line, self.step())
        if signature.reduce is not None and self.is_compared():
            self.given(tensor)
        self.send(
            CollectiveReport(
                dist.get_rank(),
                name,
                sequence,
                signature.kind,
                str(tensor.dtype).removeprefix("torch.") if is_tensor else "",
                tensor.numel() if is_tensor else 0,
                _reduce_op(signature, args, kwargs),
                root,
                line,
                self.step(),
            )
        )
        return name, sequence


def _argument(where: tuple[str, int], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    name, position = where
    if name in kwargs:
        return kwargs[name]
    return args[position] if 0 <= position < len(args) else None


def _reduce_op(signature: _Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """``SUM``, ``AVG``, ...; empty for a collective that does not reduce."""
    if signature.reduce is None:
        return ""
    op = _argument(signature.reduce, args, kwargs)
    return str(dist.ReduceOp.SUM if op is None else op).rpartition(".")[2]


def _number(signature: _Signature, tensor: Any) -> float | None:
    """The number that is given to an all_reduce; None of tensors with several."""
    is_number = isinstance(tensor, torch.Tensor) and tensor.numel() == 1
    if signature.kind != "all_reduce" or not is_number or not tensor.is_floating_point():
        return None
    return float(tensor)


def _given(signature: _Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Given:
    tensor = _argument(signature.given, args, kwargs)
    return _Given(
        _hashes(signature, tensor, _INPUT_SIZES, args, kwargs),
        sums(tensor) if signature.kind == "all_reduce" else (),
        _number(signature, tensor),
    )


def _hashes(
    signature: _Signature,
    value: Any,
    sizes: tuple[str, int],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[int, ...]:
    """Of what is given to or got from a collective; of its parts, where each is of another rank."""
    size = dist.get_world_size(_argument(signature.group, args, kwargs))
    if signature.kind == "all_to_all":
        return part_hashes(value, _argument(sizes, args, kwargs), size)
    if signature.kind == "all_gather_into_tensor" and sizes is _OUTPUT_SIZES:
        given = _argument(signature.given, args, kwargs)
        return hashes(list(value.reshape(size, *given.shape)))
    return hashes(value)
