"""Changes of a record that questions about a step need: in float64, with fewer rows, one part.

A changed record shares the networks with the original one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from sonde.adapters.torch.replay.kept_tensor import KeptTensor, map_tree
from sonde.adapters.torch.replay.run_again import batch_size
from sonde.adapters.torch.replay.step_record import (
    BackwardPass,
    Event,
    ModuleCall,
    OutsideOp,
    StepRecord,
)
from sonde.adapters.torch.replay.storage.wrappers import COMPILED

_NARROWING = (torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16)
Change = Callable[[KeptTensor], KeptTensor]


def with_rows(record: StepRecord, rows: Sequence[int]) -> StepRecord:
    """The record with these rows of the batch only.

    Tensors that the step was given, whose first size is the number of rows, are selected from;
    what the step computes follows from them. If code of the step is compiled, the rows are repeated
    until there are as many as before: with fewer, the compiler would make new code, which the
    training would use from then on.
    """
    count = batch_size(record)
    chosen = list(rows)
    if count is not None and chosen and any(_is_compiled(call.module) for call in record.calls):
        chosen = [chosen[number % len(chosen)] for number in range(count)]
    index = torch.tensor(chosen)
    made = _made_in(record)

    def select(kept: KeptTensor) -> KeptTensor:
        values = kept.values
        is_parameter = kept.leaf is not None and isinstance(kept.leaf, torch.nn.Parameter)
        if id(kept) in made or is_parameter or not values.dim() or values.shape[0] != count:
            return kept
        return _with_values(kept, values.index_select(0, index.to(values.device)))

    return _changed(record, select)


def _is_compiled(network: torch.nn.Module) -> bool:
    return any(
        getattr(each, "_compiled_call_impl", None) is not None or type(each).__name__ == COMPILED
        for each in network.modules()
    )


def in_double(record: StepRecord) -> StepRecord:
    """The record in float64, without autocast. Converts the networks in place."""
    for module in {id(call.module): call.module for call in record.calls}.values():
        module.double()

    made = _made_in(record)

    def widen(kept: KeptTensor) -> KeptTensor:
        values = kept.values
        if id(kept) in made or isinstance(kept.leaf, torch.nn.Parameter):
            return kept
        if not _is_narrow(values.dtype):
            return kept
        return _with_values(kept, _wide(values))

    changed = _changed(record, widen)
    for event in changed.events:
        if isinstance(event, ModuleCall):
            state = event.state
            event.state = replace(
                state, buffers={name: _wide(each) for name, each in state.buffers.items()}
            )
            event.autocast = ()
        elif isinstance(event, OutsideOp):
            event.autocast = ()
            if event.function in _NARROWING:
                event.function = torch.Tensor.double
            event.args = _with_wide_dtypes(event.args)
            event.kwargs = _with_wide_dtypes(event.kwargs)
    for prior in changed.prior_gradients.values():
        prior.values = None if prior.values is None else _wide(prior.values)
    return changed


def without_spoiled_clipping(record: StepRecord) -> StepRecord:
    """The record without ops that multiply gradients by a constant that is not finite.

    A norm that the program computed in a way that is not recorded is a constant. That of a step
    with NaN is NaN, and would spoil the gradients of a step that is in order.
    """
    made = _made_in(record)

    def is_spoiled(event: Event) -> bool:
        if not isinstance(event, OutsideOp):
            return False
        writes_gradients = any(
            before.leaf is not None and not before.requires_grad for before, _ in event.written
        )
        constants = [each for each in event.inputs if each.leaf is None and id(each) not in made]
        return writes_gradients and any(not _is_finite(each.values) for each in constants)

    return replace(record, events=[each for each in record.events if not is_spoiled(each)])


def _is_finite(values: torch.Tensor) -> bool:
    return values.is_meta or bool(torch.isfinite(values).all())


def micro_batches(record: StepRecord) -> list[StepRecord]:
    """The parts of a step that accumulates gradients: each ends with a backward pass."""
    parts: list[list[Event]] = [[]]
    for event in record.events:
        parts[-1].append(event)
        if isinstance(event, BackwardPass):
            parts.append([])
    return [
        replace(record, events=part, prior_gradients={})
        for part in parts
        if any(isinstance(each, BackwardPass) for each in part)
    ]


def _made_in(record: StepRecord) -> set[int]:
    """Ids of the kept tensors that the step itself computes."""
    made: set[int] = set()
    for event in record.events:
        if isinstance(event, ModuleCall):
            made |= {id(output.tensor) for output in event.outputs}
        elif isinstance(event, OutsideOp):
            made |= {id(kept) for kept in event.outputs}
            made |= {id(after) for _, after in event.written}
        else:
            made |= {id(kept) for _, kept in event.parameter_gradients}
    return made


def _changed(record: StepRecord, change: Change) -> StepRecord:
    """A copy of the record whose inputs are changed."""
    known: dict[int, KeptTensor] = {}

    def once(kept: KeptTensor) -> KeptTensor:
        if id(kept) not in known:
            known[id(kept)] = change(kept)
        return known[id(kept)]

    def mapped(tree: Any) -> Any:
        return map_tree(tree, KeptTensor, once)

    events: list[Event] = []
    for event in record.events:
        if isinstance(event, BackwardPass):
            events.append(replace(event, gradients=mapped(event.gradients)))
        else:
            events.append(replace(event, args=mapped(event.args), kwargs=mapped(event.kwargs)))
    priors = {key: replace(each) for key, each in record.prior_gradients.items()}
    return without_spoiled_clipping(replace(record, events=events, prior_gradients=priors))


def _with_values(kept: KeptTensor, values: torch.Tensor) -> KeptTensor:
    return replace(kept, copy=values)


def _is_narrow(dtype: torch.dtype) -> bool:
    return (dtype.is_floating_point and dtype != torch.float64) or (
        dtype.is_complex and dtype != torch.complex128
    )


def _with_wide_dtypes(tree: Any) -> Any:
    """``tree`` with other dtypes; its kept tensors must stay the same objects."""
    either: Any = (KeptTensor, torch.dtype)
    return map_tree(
        tree, either, lambda each: each if isinstance(each, KeptTensor) else _wide_dtype(each)
    )


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(_wide_dtype(tensor.dtype))


def _wide_dtype(dtype: torch.dtype) -> torch.dtype:
    if not _is_narrow(dtype):
        return dtype
    return torch.complex128 if dtype.is_complex else torch.float64
