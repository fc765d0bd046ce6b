"""Summarises at the end how much of the compiled code was observed, at what cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from sonde.adapters.torch.compiled.variants import CompiledCode

_MOST_OPS_TO_COUNT = 3000


class Observed(Protocol):
    """A compiled graph that was observed; ``names`` are those of the wanted ops, by number."""

    @property
    def code(self) -> CompiledCode: ...
    @property
    def names(self) -> dict[int, str]: ...


def tally_lines(graphs: Sequence[Observed], *, is_interpreted: bool) -> Iterator[str]:
    """One line of counts; another if wanted values do not exist in the compiled code."""
    observed = sum(len(each.code.observed.looks) for each in graphs if each.code.observed)
    total = sum(len(each.code.graph.ops) for each in graphs)
    yield (
        f"sonde: {observed} of {total} ops in {len(graphs)} compiled graph"
        f"{'s' if len(graphs) > 1 else ''} observed{_how(graphs, is_interpreted=is_interpreted)}"
    )
    missing = [
        name
        for each in graphs
        if each.code.observed is not None
        for number, name in each.names.items()
        if number not in each.code.observed.looks
    ]
    if missing:
        yield (
            f"sonde: {len(missing)} of the wanted values never exist in the compiled code, whose "
            f"kernels do without them, such as {missing[0]}; --compiled interpret or --compiled "
            "eager computes them [compiled-not-materialised]"
        )


def _how(graphs: Sequence[Observed], *, is_interpreted: bool) -> str:
    if is_interpreted:
        return ", run op by op: its numbers may differ in the last bits from the compiled code's"
    made = [each.code for each in graphs if each.code.observed and each.code.observed.kernels]
    if not made:
        return ""
    observed = sum(code.observed.kernels or 0 for code in made if code.observed)
    if sum(len(code.graph.ops) for code in made) > _MOST_OPS_TO_COUNT:
        return f"; {observed} kernels with observers"
    plain = [code.plain_kernels() for code in made]
    if None in plain:
        return f"; {observed} kernels with observers"
    return f"; {observed} kernels with observers, {sum(filter(None, plain))} without"
