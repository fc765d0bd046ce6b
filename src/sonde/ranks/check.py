"""The form of a check over all ranks, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sonde.core.finding import EvidenceStatus, Finding
from sonde.ranks.job_step import JobStep

WINDOW_OF_SAMPLED: Final = 1000
"""The window of what only compared steps show, in a check that is asked about all: these are far
apart after the first."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """What a check found in one step. It is reported when the same check has found the same
    ``subject`` in ``strikes`` steps of the last ``window`` that it was asked about: the first of
    them. ``explained_by``: the kinds of which it is an effect; it is left out if one of them was
    reported. ``is_sure_at_end``: it is reported also if the job ends earlier."""

    finding: Finding
    subject: str
    strikes: int = 1
    window: int = 10
    explained_by: frozenset[str] = frozenset()
    is_sure_at_end: bool = False


@dataclass(frozen=True, slots=True)
class StepCheck:
    """A check of the catalogue: ``judge`` is a pure function of one step. ``silent`` says when it
    reports nothing although ranks differ. ``is_sampled``: it needs hashes. ``also``: the kinds of
    its findings other than ``kind``."""

    kind: str
    judge: Callable[[JobStep], Iterable[Mismatch]]
    silent: str
    is_sampled: bool = False
    also: tuple[str, ...] = ()

    @property
    def kinds(self) -> tuple[str, ...]:
        return (self.kind, *self.also)


def finding(
    kind: str,
    status: EvidenceStatus,
    message: str,
    *,
    step: int,
    ranks: Sequence[int],
    evidence: Mapping[str, object],
    advice: str,
    places: Iterable[str] = (),
    parameter: str | None = None,
) -> Finding:
    """A finding about ``ranks``: those that differ from the others. ``places``: source lines as
    ``train.py:8``, modules and tensors, the most exact first."""
    return Finding(
        kind,
        "info" if status == "hypothesis" else "error" if status == "established" else "warning",
        message,
        status=status,
        evidence={"ranks": list(ranks), **evidence},
        advice=advice,
        parameter=parameter,
        rank=ranks[0] if len(ranks) == 1 else None,
        step=step,
        places=tuple(dict.fromkeys(each for each in places if each)),
    )
