"""What the values of one op show of the NaN and Inf that it made."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sonde.core.finding import Finding
from sonde.core.graph import OpNode, Source
from sonde.core.interruption import pass_on
from sonde.watch.explanations.op_facts import OpFacts
from sonde.watch.explanations.table import explain


@dataclass(frozen=True, slots=True)
class MadeValues:
    """The op ``op`` has ``nan`` NaN and ``inf`` infinities among the ``total`` elements of its
    first output with any; ``cause`` explains them, if the values show why. ``gradient_of``: the
    operator whose gradient the op computes, in the backward pass."""

    op: str
    type: str
    source: Source | None
    nan: int
    inf: int
    total: int
    cause: Finding | None
    gradient_of: str = ""


def made_values(node: OpNode, facts: OpFacts | None) -> MadeValues | None:
    """What ``facts`` show of the execution of ``node``; None without values. A failure to explain
    is not a failure to observe: it leaves ``cause`` empty."""
    output = None if facts is None else facts.output
    if facts is None or output is None:
        return None
    cause = None
    if node.kind == "op":
        try:
            cause = explain(replace(facts, gradient_of=node.gradient_of))
        except (ArithmeticError, IndexError, TypeError, ValueError) as error:
            pass_on(error)
            cause = None
    nan, inf = output.count("nan"), output.count("inf")
    return MadeValues(
        node.name, node.type, node.source, nan, inf, output.size, cause, node.gradient_of
    )
