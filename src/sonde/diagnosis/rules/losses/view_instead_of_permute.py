"""A view reorders dimensions as if it transposed them."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import EvidenceEvent, LossGraph, TrainingEvidence
from sonde.diagnosis.reshapes import KINDS, SWAPS_BATCH, SWAPS_INNER, reordering
from sonde.diagnosis.rule import DiagnosisRule, at, finding

RESHAPES = ("View", "UnsafeView", "ReshapeAlias")
COPIES = ("Clone", "ToCopy")
KEEPING = (
    *(*COPIES, "Add", "Sub", "Mul", "Div", "Relu", "LeakyRelu", "Gelu", "Silu", "Elu", "Tanh"),
    *("NativeBatchNorm", "CudnnBatchNorm", "NativeGroupNorm", "NativeDropout", "LogSoftmax"),
)
"""Nodes whose result has the dimensions of their first input."""
CHANNELS_FIRST = ("Convolution", "ConvolutionOverrideable", "Transpose", "Permute", "Upsample")
"""The starts of the names of nodes whose channels are dimension 1, or that put something there."""


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    mixed = evidence.first("samples-mixed")
    events = [each for kind in KINDS for each in evidence.named(kind)]
    events += [each for graph in evidence.graphs[:2] for each in _in_graph(graph)]
    for event in events:
        if event.name == SWAPS_BATCH and mixed is None:
            continue
        numbers = event.numbers
        yield finding(
            "view-instead-of-permute",
            "established",
            f"view{at(event.source)} turns the shape {numbers['before']} into {numbers['after']}, "
            "which mixes elements instead of exchanging dimensions"
            + (
                ""
                if mixed is None
                else f": a change of one sample changes the outputs of {mixed.numbers['rows']} "
                "others"
            ),
            step=event.step,
            where=[event.source, event.subject],
            evidence={**numbers, **({} if mixed is None else mixed.numbers)},
            advice=f"use permute() or transpose() in place of view(){at(event.source)}",
        )
        return


def _in_graph(graph: LossGraph) -> Iterator[EvidenceEvent]:
    """The reshapes that the program itself calls: those that reorder, also outside of modules, and
    those that give a loss rows of other elements than the classes of one position."""
    for index, node in enumerate(graph.nodes):
        if node.name in ("LogSoftmax", "NllLoss"):
            index = _past(graph, index, COPIES)
            kind = SWAPS_INNER if _cuts_channels(graph, index) else None
        else:
            kind = _reordered(graph, index)
        if kind is not None:
            shapes = _before(graph, index), graph.nodes[index].shape
            numbers = {"before": str(shapes[0]), "after": str(shapes[1])}
            yield EvidenceEvent(
                kind, graph.step, graph.nodes[index].source, "view", dict(numbers.items())
            )


def _reordered(graph: LossGraph, index: int) -> str | None:
    node = graph.nodes[index]
    old, new = _before(graph, index), node.shape
    if node.name not in RESHAPES or not node.is_direct or not old or not new:
        return None
    return reordering(old, new)


def _cuts_channels(graph: LossGraph, index: int) -> bool:
    """Whether a reshape makes rows of ``channels`` elements of a tensor whose channels are its
    dimension 1: each row then has neighbours of one channel."""
    old, new = _before(graph, index), graph.nodes[index].shape
    if graph.nodes[index].name not in RESHAPES or not old or not new or len(new) != 2:
        return False
    made_by = graph.nodes[_past(graph, index, KEEPING)].name
    return (
        len(old) > 2
        and made_by.startswith(CHANNELS_FIRST)
        and old[1] == new[1] != old[-1]
        and prod(old[2:]) > 1
        and prod(old) == prod(new)
    )


def _before(graph: LossGraph, index: int) -> tuple[int, ...] | None:
    inputs = graph.nodes[index].inputs
    return graph.nodes[inputs[0]].shape if inputs else None


def _past(graph: LossGraph, index: int, names: tuple[str, ...]) -> int:
    """The first node below ``index`` that is none of ``names``."""
    while graph.nodes[index].inputs:
        index = graph.nodes[index].inputs[0]
        if graph.nodes[index].name not in names:
            break
    return index


RULE = DiagnosisRule(
    "view-instead-of-permute",
    judge,
    "Dimensions of equal size; an exchange of batch and time that does not mix samples; reshapes "
    "that only split or merge neighbouring dimensions.",
    explains=("labels-misaligned",),
)
