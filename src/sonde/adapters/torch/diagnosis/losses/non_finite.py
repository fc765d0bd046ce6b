"""Finds nodes of the loss's graph that make NaN or infinities, in forward or in backward."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from sonde.adapters.torch.diagnosis.losses.graph_holders import holders_of_graphs
from sonde.adapters.torch.diagnosis.losses.loss_graph import (
    ELEMENTWISE_LOSSES,
    LossGraphs,
    short_name,
)
from sonde.adapters.torch.diagnosis.modules import ModuleCalls
from sonde.adapters.torch.diagnosis.recorder import EvidenceRecorder, shielded
from sonde.core.graph import Source

MOST_HOPS = 12
MARK = "sonde"
"""The key of the token in the metadata of a node."""
FEWEST_KEPT = 10
"""Graphs from which on it is looked for what keeps them."""
_POSITIVE = ("Log", "Log1P", "Log2", "Log10", "Pow")
_SELECTING = ("Where", "MaskedFill", "MaskedScatter")


class _Token:
    """Lives as long as the node that holds it."""

    __slots__ = ("__weakref__",)


@dataclass(slots=True, eq=False)
class NonFiniteNodes:
    """Looks at what autograd saved of singular nodes: a zero where the derivative is infinite, a
    NaN, an empty mean; also at activations that are zero everywhere."""

    recorder: EvidenceRecorder
    graphs: LossGraphs
    modules: ModuleCalls
    found: list[tuple[str, Any, Source | None]] = field(default_factory=list)
    has_cause: bool = False
    tokens: list[weakref.ref[_Token]] = field(default_factory=list)
    _most_alive: int = 0
    _has_holders: bool = False

    @shielded
    def begin(self, roots: list[torch.Tensor]) -> None:
        """Before a walk: forget the last one, and mark the graph to see how long it lives."""
        self.found.clear()
        node: Any = roots[0].grad_fn if roots else None
        if node is not None:
            token = _Token()
            first_of(node).metadata[MARK] = token
            self.tokens.append(weakref.ref(token))

    def inspect(self, name: str, node: Any, source: Source | None) -> None:
        if name == "Relu":
            self._inspect_relu(node, source)
        elif not self.has_cause:
            numbers = _fault(name, node)
            if numbers is not None:
                self.found.append((name, node, source))
                self.recorder.event(
                    f"singular-{numbers.pop('fault')}", source, name, **numbers, **self._module()
                )

    def _module(self) -> dict[str, str]:
        last = self.modules.last
        return {} if last is None else {"module": type(last.module).__name__}

    def _inspect_relu(self, node: Any, source: Source | None) -> None:
        result = node._saved_result
        if result.numel() < 2:
            return
        is_dead = not bool(result[:1].any()) and not bool(result.any())
        name = "relu-dead" if is_dead else "relu-alive"
        key = " ".join(self._parameters(node)) or "input"
        self.recorder.event(
            name, source, key, units=int(result.numel()), op=short_name(node).lower()
        )

    def _parameters(self, node: Any) -> list[str]:
        """The nearest parameters that the input of ``node`` was computed from."""
        waiting, seen = [node], 0
        names: list[str] = []
        for each in waiting:
            seen += 1
            if seen > MOST_HOPS or len(names) == 2:
                break
            for below, _ in each.next_functions:
                if below is None:
                    continue
                if short_name(below) == "AccumulateGrad":
                    known = self.graphs.parameters.known.get(id(below.variable))
                    if known is not None and known.name not in names:
                        names.append(known.name)
                else:
                    waiting.append(below)
        return names

    @shielded
    def walked(self, roots: list[torch.Tensor]) -> None:
        """After a walk: see which of the nodes found a ``where`` hides. If the loss itself is
        not finite, nothing hides their values, and their gradient is not the cause."""
        if not self.found or not math.isfinite(self.recorder.loss):
            return
        hidden = _hidden_by_selection(roots, {id(node): name for name, node, _ in self.found})
        for name, node, source in self.found:
            if id(node) in hidden:
                self.recorder.event("singular-behind-where", source, name)

    @shielded
    def backward_ended(self) -> None:
        """Note whether the gradients became NaN or infinite in a step with such a node."""
        if not self.found:
            return
        bad = sum(
            1
            for last in self.modules.in_this_step[-1:]
            for parameter in last.module.parameters()
            if parameter.grad is not None and not _is_finite(parameter.grad)
        )
        if bad:
            names = {name for name, _, _ in self.found}
            self.recorder.event("gradient-not-finite", None, " ".join(sorted(names)), tensors=bad)
            self.has_cause = True
        self.found.clear()

    @shielded
    def step_ended(self) -> None:
        """Count the losses whose graph still exists, now and then."""
        if self.recorder.step % 10 or not self.recorder.step:
            return
        made = len(self.tokens)
        self.tokens = [token for token in self.tokens if token() is not None]
        self._most_alive = max(self._most_alive, len(self.tokens))
        self.recorder.measure(
            "graphs-alive", None, "", alive=len(self.tokens), most=self._most_alive, seen=made
        )
        if len(self.tokens) >= FEWEST_KEPT and not self._has_holders:
            for name in holders_of_graphs(MARK):
                self.recorder.event("graphs-held", None, name)
                self._has_holders = True


def first_of(node: Any) -> Any:
    """A node of the first op with a gradient: it lives as long as any value computed from its
    result is kept with its graph, be it the loss, a term of it or an output of the network."""
    while True:
        below = next(
            (each for each, _ in node.next_functions if each is not None and not is_leaf(each)),
            None,
        )
        if below is None:
            return node
        node = below


def is_leaf(node: Any) -> bool:
    return bool(node.name().endswith("AccumulateGrad"))


def _is_finite(tensor: torch.Tensor) -> bool:
    values = tensor._values() if tensor.is_sparse else tensor
    return bool(torch.isfinite(values).all())


def _fault(name: str, node: Any) -> dict[str, Any] | None:
    if name == "Mean":
        is_empty = getattr(node, "_saved_self_numel", 1) == 0
        sizes = getattr(node, "_saved_self_sym_sizes", (1,))
        return {"fault": "empty", "elements": 0} if is_empty or 0 in tuple(sizes) else None
    if name in ELEMENTWISE_LOSSES:
        is_mean = int(getattr(node, "_saved_reduction", 0)) == 1
        is_empty = is_mean and node._saved_self.numel() == 0
        return {"fault": "empty", "elements": 0} if is_empty else None
    if name in ("NllLoss", "NllLoss2D"):
        weight = node._saved_total_weight
        is_mean = int(node._saved_reduction) == 1
        if is_mean and weight.numel() == 1 and float(weight) == 0:
            return {"fault": "empty", "elements": 0, "targets": int(node._saved_target.numel())}
        return None
    if name in ("Softmax", "SafeSoftmax"):
        return _softmax_fault(node)
    if name in ("Std", "Var"):
        value = getattr(node, "_saved_result", None)
        if not isinstance(value, torch.Tensor):
            return None
        if bool(torch.isnan(value).any()) and not bool(torch.isnan(node._saved_self).any()):
            return {"fault": "one-sample", "elements": int(node._saved_self.numel())}
        if bool(value.eq(0).any()) and name == "Std":
            return {"fault": "zero", "elements": int(value.eq(0).sum())}
        return None
    return _elementwise_fault(name, node)


def _elementwise_fault(name: str, node: Any) -> dict[str, Any] | None:
    if name in ("Sqrt", "Rsqrt"):
        value = getattr(node, "_saved_result", None)
    elif name == "Div":
        value = getattr(node, "_saved_other", None)
    elif name == "Pow":
        exponent = getattr(node, "_saved_exponent", 1)
        if not isinstance(exponent, (int, float)) or exponent >= 1:
            return None
        value = node._saved_self
    else:
        value = getattr(node, "_saved_self", getattr(node, "_saved_result", None))
    if not isinstance(value, torch.Tensor) or not value.is_floating_point() or not value.numel():
        return None
    if name == "Exp":
        if math.isfinite(float(value.sum())):
            return None
        inf = int(torch.isinf(value).sum())
        return {"fault": "overflow", "elements": inf} if inf else None
    if name in ("Acos", "Asin", "Atanh", "Acosh"):
        edge = int(value.abs().ge(1).sum()) if name != "Acosh" else int(value.le(1).sum())
        return {"fault": "edge", "elements": edge, "of": value.numel()} if edge else None
    if name == "Log1P":
        value = value + 1
    is_usual = math.isfinite(float(value.sum())) and int(value.count_nonzero()) == value.numel()
    if is_usual and (name not in _POSITIVE or float(value.min()) > 0):
        return None
    nan = int(torch.isnan(value).sum())
    zero = int(value.eq(0).sum())
    negative = int(value.lt(0).sum()) if name in _POSITIVE else 0
    if name == "Rsqrt":
        zero = int(torch.isinf(value).sum())
    if not (nan or zero or negative):
        return None
    if nan == value.numel() or (nan and name == "Div"):
        return None  # Everything before it is NaN already.
    fault = "zero" if zero else "negative"
    return {"fault": fault, "zeros": zero, "nan": nan, "negative": negative, "of": value.numel()}


def _softmax_fault(node: Any) -> dict[str, Any] | None:
    result = node._saved_result
    dim = int(node._saved_dim)
    if dim >= 1 << 62:
        dim -= 1 << 64
    if not math.isnan(float(result.sum())):
        return None
    rows = torch.isnan(result)
    whole = rows.all(dim)
    bad = int(whole.sum())
    if bad == whole.numel():
        return None
    return {"fault": "row", "rows": bad, "of": whole.numel()}


def _hidden_by_selection(roots: list[torch.Tensor], wanted: dict[int, str]) -> set[int]:
    """The ids of the wanted nodes that the loss has only below a ``where`` that hides the elements
    at which they are singular."""
    found: set[int] = set()
    shown: set[int] = set()
    seen: set[tuple[Any, bool, bool, int]] = set()
    waiting: list[_Visit] = [_Visit(root.grad_fn) for root in roots if root.grad_fn]
    while waiting:
        visit = waiting.pop()
        node = visit.node
        key = node, visit.hops > 0, visit.is_selected, id(visit.hidden)
        if key in seen:
            continue
        seen.add(key)
        if id(node) in wanted:
            if not visit.is_selected or _is_shown(wanted[id(node)], node, visit.hidden):
                shown.add(id(node))
            elif visit.hops:
                found.add(id(node))
        waiting += list(_below(visit))
    return found - shown


@dataclass(frozen=True, slots=True)
class _Visit:
    """A node on a way from the loss; ``hidden``: what the last selection does not take."""

    node: Any
    hops: int = 0
    is_selected: bool = False
    hidden: torch.Tensor | None = None


def _below(visit: _Visit) -> Iterator[_Visit]:
    selects = short_name(visit.node) in _SELECTING
    hops = max(0, visit.hops - 1)
    for number, (below, _) in enumerate(visit.node.next_functions):
        if below is None:
            continue
        if selects:
            yield _Visit(below, MOST_HOPS, True, _not_taken(visit.node, number))
        else:
            yield _Visit(below, hops, visit.is_selected, visit.hidden if hops else None)


def _not_taken(node: Any, number: int) -> torch.Tensor | None:
    """The elements of the input of this number that a selection does not take."""
    condition = getattr(node, "_saved_condition", None)
    if isinstance(condition, torch.Tensor):
        return condition if number else ~condition
    mask = getattr(node, "_saved_mask", None)
    return mask if isinstance(mask, torch.Tensor) and mask.dtype == torch.bool else None


def _is_shown(name: str, node: Any, hidden: torch.Tensor | None) -> bool:
    """Whether a root has a zero at an element that the selection takes."""
    value = getattr(node, "_saved_result" if name == "Sqrt" else "_saved_self", None)
    if hidden is None or name not in ("Sqrt", "Pow") or not isinstance(value, torch.Tensor):
        return False
    return value.shape == hidden.shape and bool((value.eq(0) & ~hidden).any())
