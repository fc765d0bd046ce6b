"""The headline of a run: what is wrong, in one sentence, on the page and in the commands."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from sonde.compare.runs.headline import comparison_headline
from sonde.compare.runs.result import RunComparison
from sonde.core.text.number_text import count_text
from sonde.dump.reading.side_files import OverflowVerdict
from sonde.server.causes import CauseTable, causes_of
from sonde.server.findings import finding_headline
from sonde.watch.headline import spread_text
from sonde.watch.hit_text import is_collective
from sonde.wire.api import CauseView, RankView, RunHeadline
from sonde.wire.convert import source_line
from sonde.wire.shapes import DiagnosisView, HeadlineText, Hit, HitRef, LossPoint, SourceLine

ORDERLY: Final = (0, 130)
"""Exit codes of a program that ended normally, or by Ctrl-C."""


def headline_of_hits(hits: Iterable[Hit]) -> RunHeadline | None:
    """The sentence about the first cause of the hits."""
    cause = causes_of(hits).first()
    return None if cause is None else cause_headline(cause)


def cause_headline(cause: CauseView, *, is_one_of_several: bool = False) -> RunHeadline:
    """``is_one_of_several``: the run has several ranks, so that the sentence names this one."""
    hit = cause.first
    plain = f"{hit.condition} at {hit.op}"
    told = hit.headline or HeadlineText(plain, f"{plain}.")
    prefix = f"rank {cause.rank}: " if is_one_of_several else ""
    spread = spread_text(cause.others) if cause.origin else _alike_text(cause.others)
    return RunHeadline(
        kind="hit",
        severity="error" if cause.origin else "warning",
        title=f"{prefix}{told.title}",
        text=f"{prefix}{told.text}{spread}",
        advice=hit.advice,
        rank=cause.rank,
        step=hit.step,
        op=cause.origin or hit.op,
        io="output" if cause.origin else hit.io,
        slot=0 if cause.origin and hit.op != cause.origin else hit.slot,
        source=told.source or (hit.source if cause.origin in ("", hit.op) else None),
        others=cause.others,
    )


def _alike_text(others: int) -> str:
    return f" {count_text(others, 'other tensor')} met the same condition." if others else ""


def live_headline(
    ranks: Sequence[RankView],
    causes: CauseTable,
    losses: Mapping[int, Sequence[LossPoint]],
    diagnosis: DiagnosisView | None = None,
    lost: Sequence[int] = (),
) -> RunHeadline | None:
    """The headline of a training: a failure, the hit at which it is paused, a broken loss, the op
    that made NaN or Inf, an established finding, another cause of hits, or a process that is gone,
    in this order. ``lost``: the ranks that are gone, the first to go first: a launcher ends the
    others after it."""
    several = len(ranks) > 1
    for rank in ranks:
        if has_failed(rank):
            return _crash_headline(rank, several)
    stops = [(each, each.hit) for each in ranks if each.state == "paused" and each.hit is not None]
    if stops:
        # A rank that got the values from another one is not the first to be named.
        rank, hit = min(stops, key=lambda each: (each[1].step, is_collective(each[1].op)))
        return _stop_headline(rank, hit, causes, several)
    for rank in ranks:
        step = first_bad_loss(losses.get(rank.rank, ()))
        if step is not None:
            found = _loss_headline(rank, step, losses[rank.rank], causes, several)
            return found if found.op else _with_finding(found, diagnosis, rank)
    cause = causes.first()
    finding = finding_headline(diagnosis, ranks[0].rank) if ranks else None
    if cause is not None and (cause.origin or finding is None):
        return cause_headline(cause, is_one_of_several=several)
    if finding is not None:
        return finding
    by_number = {rank.rank: rank for rank in ranks}
    return _lost_headline([by_number[each] for each in lost], several) if lost else None


def has_failed(rank: RankView) -> bool:
    if rank.state != "ended" or rank.is_terminated:
        return False
    return rank.exit_code is not None and rank.exit_code not in ORDERLY


def first_bad_loss(points: Sequence[LossPoint]) -> int | None:
    """The first step whose loss is NaN or infinite, if the last loss is, too."""
    known = [point for point in points if point.loss is not None]
    if not known or _is_finite(known[-1]):
        return None
    return next(point.step for point in known if not _is_finite(point))


def _is_finite(point: LossPoint) -> bool:
    return point.loss is not None and math.isfinite(float(point.loss))


def _crash_headline(rank: RankView, several: bool) -> RunHeadline:
    frame = next((each for each in reversed(rank.frames) if each.is_own), None)
    source = None if frame is None else frame.line
    prefix = f"rank {rank.rank}: " if several else ""
    title = f"{prefix}{rank.error or f'the program ended with exit code {rank.exit_code}'}"
    place = _place(source)
    return RunHeadline(
        kind="crash",
        severity="error",
        title=title,
        text=f"{title}{',' if place else ''} in step {rank.step}{place}.",
        rank=rank.rank,
        step=rank.step,
        source=source,
    )


def _place(source: SourceLine | None) -> str:
    if source is None:
        return ""
    name = source.file.rpartition("/")[2]
    code = f" `{source.code.strip()}`" if source.code.strip() else ""
    return f" at {name}:{source.line}{code}"


def _stop_headline(rank: RankView, hit: HitRef, causes: CauseTable, several: bool) -> RunHeadline:
    listed = causes.list(rank.rank).causes
    for cause in listed:
        is_same = hit.headline is not None and cause.first.headline == hit.headline
        if is_same or (hit.origin is not None and cause.origin == hit.origin):
            return cause_headline(cause, is_one_of_several=several)
    prefix = f"rank {rank.rank}: " if several else ""
    told = hit.headline or HeadlineText(
        f"{hit.condition} at {hit.op}", f"{hit.condition} at {hit.op} in step {hit.step}."
    )
    return RunHeadline(
        kind="hit",
        severity="warning" if hit.origin is None else "error",
        title=f"{prefix}{told.title}",
        text=f"{prefix}{told.text}",
        rank=rank.rank,
        step=hit.step,
        op=hit.origin or hit.op,
        io=hit.io,
        slot=hit.slot,
        source=told.source,
    )


def _loss_headline(
    rank: RankView,
    step: int,
    points: Sequence[LossPoint],
    causes: CauseTable,
    several: bool,
) -> RunHeadline:
    """The loss is broken; why, if hits tell it."""
    value = next(point.loss for point in points if point.step == step)
    prefix = f"rank {rank.rank}: " if several else ""
    title = f"{prefix}the loss is {value} since step {step}"
    ended = " The training has ended." if rank.state == "ended" else ""
    cause = next((each for each in causes.list().causes if each.origin), None)
    if cause is not None:
        found = cause_headline(cause, is_one_of_several=several)
        text = f"{title}: {found.text}{ended}"
        return _replaced(found, kind="loss", title=title, text=text)
    return RunHeadline(
        kind="loss",
        severity="error",
        title=title,
        text=f"{title}; no watchpoint looked for the op that made it.{ended}",
        advice="Run it again with a watchpoint for NaN and Inf (recommended), or with "
        "'sonde run --overflow': the first op that makes them is named.",
        rank=rank.rank,
        step=step,
    )


def _with_finding(
    broken: RunHeadline, diagnosis: DiagnosisView | None, rank: RankView
) -> RunHeadline:
    """The headline about a broken loss of which no op of origin is known, with the established
    finding that says why, if there is one."""
    why = finding_headline(diagnosis, rank.rank, told_step=broken.step)
    if why is None:
        return broken
    ended = " The training has ended." if rank.state == "ended" else ""
    return RunHeadline(
        kind="finding",
        severity="error",
        title=broken.title,
        text=f"{broken.title}: {why.text}{ended}",
        advice=why.advice,
        rank=broken.rank,
        step=broken.step,
        source=why.source,
    )


def _replaced(found: RunHeadline, **changes: str) -> RunHeadline:
    fields = {name: getattr(found, name) for name in found.__struct_fields__}
    return RunHeadline(**(fields | changes))


def _lost_headline(lost: Sequence[RankView], several: bool) -> RunHeadline:
    """``lost``: the first to go first."""
    rank, *others = lost
    who = f"rank {rank.rank}: " if several else ""
    title = f"{who}the training process is gone"
    return RunHeadline(
        kind="lost",
        severity="warning",
        title=title,
        text=f"{title}, last seen in step {rank.step}.{_later_text(others)} Its graphs, hits and "
        "losses are still shown; its tensors cannot be fetched.",
        rank=rank.rank,
        step=rank.step,
    )


def _later_text(others: Sequence[RankView]) -> str:
    if not others:
        return ""
    if len(others) == 1:
        return f" Rank {others[0].rank} went after it."
    return f" {len(others)} other ranks went after it."


def verdict_headline(
    told: OverflowVerdict, rank: int, *, is_one_of_several: bool = False
) -> RunHeadline:
    """The sentence that the dump has, as the command printed it."""
    prefix = f"rank {rank}: " if is_one_of_several else ""
    return RunHeadline(
        kind="overflow",
        severity="error",
        title=f"{prefix}{told.title}",
        text=f"{prefix}{told.text}",
        advice=told.advice,
        rank=rank,
        step=told.step,
        op=told.op,
        source=None if told.source is None else source_line(told.source),
    )


def divergence_headline(comparison: RunComparison) -> RunHeadline | None:
    """Where two dumps first differ, for both of them."""
    told, found = comparison_headline(comparison), comparison.first_divergence
    if told is None or found is None:
        return None
    pair = found.pair
    source = pair.source or pair.source_b
    return RunHeadline(
        kind="divergence",
        severity="error",
        title=told.title,
        text=told.text,
        advice=found.finding.advice,
        rank=pair.rank,
        step=pair.step,
        op=pair.a,
        source=None if source is None else source_line(source),
        others=found.inheritors,
    )
