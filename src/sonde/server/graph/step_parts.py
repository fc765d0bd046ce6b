"""Divides a training step into parts: the network, and what surrounds it.

Ops outside of all modules have the scope ``Default``. Consecutive ones form a part of the step that
is named by the function that ran them: data making (``get_batch``), the loss (``cross_entropy``),
what is done with gradients (``clip_grad_norm_``).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from sonde.core.graph import GRADIENTS, OPTIMIZER
from sonde.wire.graphs import StepPart
from sonde.wire.shapes import Node, SourceLine

Anchor = Literal["start", "network", "backward", "optimizer", "end"]

TOP_SCOPE: Final = "Default"
_RECOMPUTED: Final = "recompute_"
_INNER: Final = frozenset(("<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>", "<lambda>"))
_CALL: Final = re.compile(r"([A-Za-z_]\w*)\s*\(")
_LOSS: Final = re.compile(r"loss|entropy|criterion|kl_div", re.IGNORECASE)
_GRADIENT: Final = re.compile(r"clip|grad|norm|unscale", re.IGNORECASE)
_USUAL: Final = {"data": "data", "loss": "loss", "gradients": "gradients", "other": "other ops"}
_OF_WEIGHTS: Final = "regularizer"


@dataclass(frozen=True, slots=True)
class StepFunction:
    """Consecutive ops outside of all modules: ``scope`` is the scope that is shown for them, which
    no name of an op contains. ``nodes`` are the places of the ops."""

    scope: str
    part: StepPart
    nodes: tuple[int, ...]


def part_of_scope(path: str) -> StepPart:
    """The part of a step that a scope of the outermost level, without ``Default``, stands for."""
    if path.startswith(GRADIENTS):
        return "backward"
    if path.startswith(_RECOMPUTED):
        return "recomputed"
    name, _, cls = path.rstrip("/").rpartition("/")[2].partition("-")
    if name == OPTIMIZER:
        return "optimizer"
    # A network that computes its loss, too, is called network-NetWithLoss.
    is_loss_class = cls.rstrip("_0123456789").endswith("Loss") and name != "network"
    return "loss" if name == "loss" or is_loss_class else "network"


def step_functions(nodes: Sequence[Node], folded: Sequence[bool]) -> list[StepFunction]:
    """The functions of the step, in execution order. Folded nodes neither begin nor end one."""
    loop = _loop_frames(nodes)
    taken = {node.scope for node in nodes}
    has_loss_module = any(_is_loss_module(scope) for scope in taken)
    found: list[StepFunction] = []
    for part, usual, members in _divided(nodes, _runs(nodes, folded)):
        if len(members) == 1 and part == "other":
            continue
        name = _name([nodes[number] for number in members], part, usual, loop, has_loss_module)
        scope, number = f"{TOP_SCOPE}/{name}", 1
        while scope in taken:
            scope, number = f"{TOP_SCOPE}/{name}_{number}", number + 1
        taken.add(scope)
        found.append(StepFunction(scope, part, tuple(members)))
    return found


def _divided(
    nodes: Sequence[Node], runs: Sequence[tuple[Anchor, Anchor, list[int]]]
) -> list[tuple[StepPart, str, list[int]]]:
    """The parts of the step that ``runs`` are, each with the name it usually has.

    What is made of no weight between two networks (``torch.ones``, the targets of a discriminator)
    is data as well; what is made of weights before the network runs is a term of the loss.
    """
    divided = [each for each in runs if _part(*each[:2]) in ("data", "other")]
    end = max((members[-1] + 1 for _, _, members in divided), default=0)
    made_of_weights = _made_of_weights(nodes[:end])
    found: list[tuple[StepPart, str, list[int]]] = []
    data: list[int] = []
    for before, after, members in runs:
        part = _part(before, after)
        usual = _USUAL.get(part, "")
        of_weights = [number for number in members if number in made_of_weights]
        others = [number for number in members if number not in made_of_weights]
        if part == "data" or (part == "other" and others):
            if not data:
                found.append(("data", _USUAL["data"], data))
            data += others
            members = of_weights
            if part == "data":
                part, usual = "loss", _OF_WEIGHTS
        if members:
            found.append((part, usual, members))
    return [each for each in found if each[2]]


def _made_of_weights(nodes: Sequence[Node]) -> set[int]:
    """The ops that are computed from weights, directly or by other ops."""
    names: set[str] = set()
    found: set[int] = set()
    for number, node in enumerate(nodes):
        if node.kind == "parameter":
            names.add(node.name)
        elif any(edge.producer in names for edge in node.inputs):
            names.add(node.name)
            found.add(number)
    return found


def _runs(nodes: Sequence[Node], folded: Sequence[bool]) -> list[tuple[Anchor, Anchor, list[int]]]:
    """Consecutive ops outside of modules, with what ran before and after them."""
    found: list[tuple[Anchor, Anchor, list[int]]] = []
    before: Anchor = "start"
    members: list[int] = []
    for number, node in enumerate(nodes):
        if node.kind != "op" or folded[number]:
            continue
        if node.scope == TOP_SCOPE and node.phase == "forward":
            members.append(number)
            continue
        anchor = _anchor(node)
        if members:
            found.append((before, anchor, members))
            members = []
        before = anchor
    return [*found, (before, "end", members)] if members else found


def _anchor(node: Node) -> Anchor:
    if node.phase == "optimizer":
        return "optimizer"
    return "backward" if node.phase == "backward" else "network"


def _part(before: Anchor, after: Anchor) -> StepPart:
    match before, after:
        case (("start" | "optimizer"), "network"):
            return "data"
        case "network", ("backward" | "end"):
            return "loss"
        case "backward", ("optimizer" | "end"):
            return "gradients"
        case _:
            return "other"


def _loop_frames(nodes: Sequence[Node]) -> Collection[tuple[str, str]]:
    """The functions, as file and name, that ran the training loop: those that stepped the
    optimizer."""
    return {
        (source.file, source.function)
        for node in nodes
        if node.phase == "optimizer"
        for source in node.sources
    }


def _is_loss_module(scope: str) -> bool:
    top, _, rest = scope.partition("/")
    return top == TOP_SCOPE and part_of_scope(rest.partition("/")[0]) == "loss"


def _name(
    nodes: Sequence[Node],
    part: StepPart,
    usual: str,
    loop: Collection[tuple[str, str]],
    has_loss_module: bool,
) -> str:
    """The function of the user's that ran the ops; else the function that their line calls; else
    the ``usual`` name of the part. In ``criterion(net(x), y) + 1e-4 * penalty`` the call is that of
    the loss module, whose ops have its scope."""
    own = {name for node in nodes if (name := _own_function(node.sources, loop))}
    if len(own) == 1:
        return own.pop()
    called = list(dict.fromkeys(name for node in nodes for name in _calls(node.sources)))
    telling = {"loss": _LOSS, "gradients": _GRADIENT}.get(part)
    if part == "loss" and has_loss_module:
        return usual
    if telling is not None:
        found = next((name for name in called if telling.search(name)), None)
        return found or usual
    return called[0] if part == "other" and called else usual


def _own_function(sources: Sequence[SourceLine], loop: Collection[tuple[str, str]]) -> str:
    """The outermost function of the stack that is not part of the loop; empty if there is none, or
    the loop is not known."""
    if not loop:
        return ""
    for source in reversed(sources):
        is_inner = source.function in _INNER or source.function == "<module>"
        if not is_inner and (source.file, source.function) not in loop:
            return source.function
    return ""


def _calls(sources: Sequence[SourceLine]) -> list[str]:
    """The names of the functions that the innermost line calls, in the order of the text."""
    return _CALL.findall(sources[0].code) if sources else []
