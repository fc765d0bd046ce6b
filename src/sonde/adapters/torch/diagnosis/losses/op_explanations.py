"""Finds the op that made a loss NaN or infinite, and why, when that happens for the first time.

The last call of the root module is run again, each op observed: the batch and the weights are still
those of the loss. NaN and infinities are followed from the op that made them of finite inputs to
the output, so that those that an op after it removes (a mask before softmax) do not count. Where
the output is finite, the loss function made them: there autograd has the inputs of some ops.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from sonde.adapters.torch import private
from sonde.adapters.torch.calling_line import caller
from sonde.adapters.torch.diagnosis.losses.loss_graph import LossGraphs, is_hooked, short_name
from sonde.adapters.torch.diagnosis.modules import ModuleCalls, RootCall, tensors_in
from sonde.adapters.torch.diagnosis.probes.restoring import can_probe, put_back
from sonde.adapters.torch.diagnosis.recorder import EvidenceRecorder, shielded
from sonde.core.finding import Finding
from sonde.core.graph import Source
from sonde.core.interruption import ignored, pass_on
from sonde.watch.explanations import OpFacts, TensorFacts, explain

MOST_NODES = 20_000
CTC = "ctc_loss"
_SIGNED = 2**63 - 1


@dataclass(frozen=True, slots=True)
class _Kept:
    """What autograd keeps of an op: its inputs and other arguments by name, in the order in which
    ``op`` of aten takes them. ``kind`` is its name in the table of explanations. ``is_masked``: an
    input may be -inf where a mask has put it."""

    op: str
    inputs: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    kind: str = ""
    is_masked: bool = False


_KEPT = {
    **{
        name: _Kept(name.lower(), ("self",))
        for name in (
            *("Log", "Log2", "Log10", "Log1P", "Acos", "Asin", "Atanh", "Acosh"),
            *("Digamma", "Lgamma"),
        )
    },
    "Div": _Kept("div", ("self", "other")),
    "Xlogy": _Kept("xlogy", ("self", "other")),
    "Mul": _Kept("mul", ("self", "other")),
    "Pow": _Kept("pow", ("self",), ("exponent",)),
    "MseLoss": _Kept("mse_loss", ("self", "target"), ("reduction",)),
    "SmoothL1Loss": _Kept("smooth_l1_loss", ("self", "target"), ("reduction", "beta")),
    "HuberLoss": _Kept("huber_loss", ("self", "target"), ("reduction", "delta")),
    "NllLoss": _Kept(
        "nll_loss_nd",
        ("self", "target", "weight"),
        ("reduction", "ignore_index"),
        "nll_loss_forward",
        is_masked=True,
    ),
}
_KEPT["NllLoss2D"] = _KEPT["NllLoss"]
"""Nodes whose inputs autograd keeps."""


@dataclass(slots=True, eq=False)
class OpExplanations:
    """Explains the first loss that is not finite, as an event ``op-not-finite``."""

    recorder: EvidenceRecorder
    modules: ModuleCalls
    graphs: LossGraphs
    _is_done: bool = False

    @shielded
    def backward_begins(self, roots: list[torch.Tensor]) -> None:
        if self._is_done or math.isfinite(self.recorder.loss):
            return
        self._is_done = True
        call = self.modules.last
        if call is not None and any(not _is_finite(each) for each in call.module.parameters()):
            return  # An earlier gradient has done it.
        found = None if call is None or self.recorder.uses_compiler else self._run_again(call)
        if found is None:
            found = self._in_graph(roots)
        if found is not None:
            op, source, cause = found
            self.recorder.event(
                "op-not-finite",
                source,
                op,
                text=cause.message,
                cause=cause.detail,
                status=cause.status,
                advice=cause.advice,
            )

    def _run_again(self, call: RootCall) -> tuple[str, Source | None, Finding] | None:
        if not can_probe(call.module):
            return None
        flags = [(each, each.training) for each in call.module.modules()]
        trace = NonFiniteTrace()
        self.recorder.is_probing = True
        try:
            with put_back(call.module):
                for module, flag in flags:
                    module.training = flag
                with trace:
                    output = call.module(*call.args, **call.kwargs)
        except Exception as error:  # The module is the program's: it may refuse a second call.
            pass_on(error)
            return None
        finally:
            self.recorder.is_probing = False
        return trace.origin_of(tensors_in(output))

    def _in_graph(self, roots: list[torch.Tensor]) -> tuple[str, Source | None, Finding] | None:
        """The op nearest to the parameters that explains itself by what autograd kept."""
        order: list[Any] = []
        seen: set[Any] = set()
        waiting: list[Any] = [root.grad_fn for root in roots if root.grad_fn is not None]
        while waiting and len(order) < MOST_NODES:
            node = waiting.pop()
            if node not in seen:
                seen.add(node)
                order.append(node)
                waiting += [each for each, _ in node.next_functions if each is not None]
        lines = self.graphs.lines_of([short_name(node) for node in order], order)
        for node, line in zip(reversed(order), reversed(lines), strict=True):
            cause = _explained(node)
            if cause is not None:
                return _op_of(short_name(node)), line, cause
        return None


class NonFiniteTrace(private.TorchDispatchMode):  # type: ignore[misc]
    """Notes each op that makes NaN or Inf of finite inputs, and what its results become."""

    def __init__(self) -> None:
        super().__init__()
        self._origins: dict[int, tuple[str, Source | None, OpFacts]] = {}
        self._kept: list[torch.Tensor] = []  # An id is that of one tensor as long as it lives.

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        with ignored(RuntimeError, TypeError, ValueError):  # Unusual kinds of tensor.
            self._note(func, args, kwargs or {}, result)
        return result

    def _note(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        outputs = [each for each in tensors_in(result) if not _is_finite(each)]
        if not outputs:
            return
        inputs = tensors_in((args, kwargs))
        known = next(
            (self._origins[id(each)] for each in inputs if id(each) in self._origins), None
        )
        if known is None and all(_is_finite(each) for each in inputs):
            name = str(func.__name__).partition(".")[0]
            known = name, caller(), _facts(name, func, args, kwargs, outputs)
        if known is not None:
            self._origins |= {id(each): known for each in outputs}
            self._kept += outputs

    def origin_of(self, tensors: list[torch.Tensor]) -> tuple[str, Source | None, Finding] | None:
        """The op that the non-finite values of ``tensors`` come from, if it can be explained."""
        for each in tensors:
            known = self._origins.get(id(each))
            cause = None if known is None else explain(known[2])
            if known is not None and cause is not None:
                return known[0], known[1], cause
        return None


def _facts(name: str, func: Any, args: Any, kwargs: Any, outputs: list[torch.Tensor]) -> OpFacts:
    names = [each.name for each in func._schema.arguments]
    return _facts_of(name, {**dict(zip(names, args, strict=False)), **kwargs}, outputs[0])


def _facts_of(name: str, given: dict[str, Any], output: torch.Tensor) -> OpFacts:
    """An op by its arguments: tensors are inputs, everything else attributes."""
    inputs = [
        _tensor_facts(slot, value)
        for slot, value in enumerate(given.values())
        if isinstance(value, torch.Tensor)
    ]
    plain = {key: str(value) for key, value in given.items() if not isinstance(value, torch.Tensor)}
    return OpFacts(name, inputs, [_tensor_facts(0, output)], plain)


def _tensor_facts(slot: int, tensor: torch.Tensor) -> TensorFacts:
    copy = tensor.detach().clone()  # The program may change it before it is read.
    values = copy.float() if copy.dtype in (torch.float16, torch.bfloat16) else copy
    dtype = str(tensor.dtype).removeprefix("torch.")
    return TensorFacts(slot, dtype, tuple(tensor.shape), lambda: values.cpu().numpy())


def _op_of(name: str) -> str:
    if name == "CtcLoss":
        return CTC
    return _KEPT[name].op.removesuffix("_nd") if name in _KEPT else name.lower()


def _explained(node: Any) -> Finding | None:
    """Why the op of ``node`` is not finite, by what autograd kept of it."""
    if is_hooked(node):
        return None
    name = short_name(node)
    if name == "CtcLoss":
        return _explained_ctc(node)
    if name == "Exp":  # Its result is kept, its input is not.
        result = node._saved_result
        return (
            None if _is_finite(result) else explain(OpFacts("exp", [], [_tensor_facts(0, result)]))
        )
    kept = _KEPT.get(name)
    if kept is None:
        return None
    given = {key: getattr(node, f"_saved_{key}", None) for key in (*kept.inputs, *kept.arguments)}
    tensors = [each for each in given.values() if isinstance(each, torch.Tensor)]
    is_known = all(_is_known(each, kept) for each in tensors)
    if not tensors or not is_known or any(given[key] is None for key in kept.inputs[:2]):
        return None
    for key, value in given.items():
        if isinstance(value, int) and value > _SIGNED:  # It is kept without its sign.
            given[key] = value - (_SIGNED + 1) * 2
    result = getattr(torch.ops.aten, kept.op)(*given.values())
    return None if _is_finite(result) else explain(_facts_of(kept.kind or kept.op, given, result))


def _is_known(tensor: torch.Tensor, kept: _Kept) -> bool:
    """Whether the values of an input are not themselves the fault of another op."""
    values = tensor.masked_fill(tensor == -math.inf, 0) if kept.is_masked else tensor
    return _is_finite(values)


def _explained_ctc(node: Any) -> Finding | None:
    result = node._saved_result0
    if _is_finite(result) or not _is_finite(node._saved_log_probs):
        return None
    given = {
        name: getattr(node, f"_saved_{name}")
        for name in ("log_probs", "targets", "input_lengths", "target_lengths")
    }
    return explain(_facts_of(CTC, given, result))


def _is_finite(tensor: torch.Tensor) -> bool:
    if not tensor.is_floating_point() or not tensor.numel():
        return True
    return bool(torch.isfinite(tensor.detach()).all())
