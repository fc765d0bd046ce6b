"""The headline of a run: what is wrong, in one sentence, on the page and in the commands."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from sonde.compare.runs.headline import comparison_headline
from sonde.compare.runs.result import RunComparison
from sonde.core.text.number_text import count_text
from sonde.dump.reading.side_files import OverflowVerdict
from sonde.server.causes import CauseTable, causes_of
from sonde.server.crashes import crash_headline
from sonde.server.findings import finding_headline
from sonde.watch.headline import spread_text
from sonde.watch.hit_text import is_collective
from sonde.watch.watchpoint import NON_FINITE
from sonde.wire.api import CauseView, RankView, RunHeadline
from sonde.wire.convert import source_line
from sonde.wire.shapes import DiagnosisView, HeadlineText, Hit, HitRef, LossPoint

ORDERLY: Final = (0, 130)
"""Exit codes of a program that ended normally, or by Ctrl-C."""


def headline_of_hits(hits: Iterable[Hit]) -> RunHeadline | None:
    """The sentence about the first cause of the hits."""
    cause = causes_of(hits).first()
    return None if cause is None else cause_headline(cause)


def cause_headline(
    cause: CauseView, *, is_one_of_several: bool = False, command: str = ""
) -> RunHeadline:
    """``is_one_of_several``: the run has several ranks, so that the sentence names this one.
    ``command`` would find the op of NaN or Inf whose origin is not known."""
    hit = cause.first
    plain = f"{hit.condition} at {hit.op}"
    told = hit.headline or HeadlineText(plain, f"{plain}.")
    prefix = f"rank {cause.rank}: " if is_one_of_several else ""
    spread = spread_text(cause.others) if cause.origin else _alike_text(hit, cause.others)
    is_unknown = not cause.origin and hit.condition in NON_FINITE
    return RunHeadline(
        kind="hit",
        severity="error" if cause.origin or is_unknown else "warning",
        title=f"{prefix}{told.title}",
        text=f"{prefix}{told.text}{spread}",
        advice=_WATCH_OPS if is_unknown else hit.advice,
        rank=cause.rank,
        step=hit.step,
        op=cause.origin or hit.op,
        io="output" if cause.origin else hit.io,
        slot=0 if cause.origin and hit.op != cause.origin else hit.slot,
        source=told.source or (hit.source if cause.origin in ("", hit.op) else None),
        others=cause.others,
        command=command if is_unknown else "",
    )


def _finding_command(rank: RankView) -> str:
    """The command that runs the program of ``rank`` and names the op that makes NaN or Inf; empty
    if a launcher started it, whose own arguments are not known."""
    known = rank.metadata
    if known is None or known.world_size != 1 or not known.script:
        return ""
    words = ("sonde", "debug", "--no-pause", "--watch-for", "nan", known.script, *known.arguments)
    return shlex.join(words)


_WATCH_OPS: Final = (
    "Run it again with a watchpoint for NaN and Inf of all tensors (--watch-for nan), or "
    "with 'sonde run --overflow': the first op that makes them is named, with its line and why."
)
_TARGETS: Final = {"weight_overflow": "weight", "gradient_exploding": "gradient"}


def _alike_text(hit: Hit, others: int) -> str:
    if not others:
        return ""
    if hit.condition in NON_FINITE:
        text = count_text(others, f"other {_TARGETS.get(hit.condition, 'tensor')}")
        return f" {text} {'has' if others == 1 else 'have'} NaN or Inf, too."
    return f" {count_text(others, 'other tensor')} met the same condition."


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
            return crash_headline(rank, several)
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
        command = _finding_command(ranks[0])
        return cause_headline(cause, is_one_of_several=several, command=command)
    if finding is not None:
        return finding
    by_number = {rank.rank: rank for rank in ranks}
    return _lost_headline([by_number[each] for each in lost], several) if lost else None


def has_failed(rank: RankView) -> bool:
    if rank.state != "ended" or rank.is_terminated:
        return False
    return rank.exit_code is not None and rank.exit_code not in ORDERLY


def first_bad_loss(points: Sequence[LossPoint]) -> int | None:
    """The first step whose loss is NaN or infinite, if the last loss of its optimizer is, too."""
    known: dict[str, list[LossPoint]] = {}
    for point in points:
        if point.loss is not None:
            known.setdefault(point.optimizer, []).append(point)
    broken = [each for each in known.values() if not _is_finite(each[-1])]
    firsts = (point.step for each in broken for point in each if not _is_finite(point))
    return min(firsts, default=None)


def _is_finite(point: LossPoint) -> bool:
    return point.loss is not None and math.isfinite(float(point.loss))


def _stop_headline(rank: RankView, hit: HitRef, causes: CauseTable, several: bool) -> RunHeadline:
    listed = causes.list(rank.rank).causes
    for cause in listed:
        is_same = hit.headline is not None and cause.first.headline == hit.headline
        if is_same or _is_of(cause, hit):
            command = _finding_command(rank)
            return cause_headline(cause, is_one_of_several=several, command=command)
    prefix = f"rank {rank.rank}: " if several else ""
    told = hit.headline or HeadlineText(
        f"{hit.condition} at {hit.op}", f"{hit.condition} at {hit.op} in step {hit.step}."
    )
    return RunHeadline(
        kind="hit",
        severity="error" if hit.origin or hit.condition in NON_FINITE else "warning",
        title=f"{prefix}{told.title}",
        text=f"{prefix}{told.text}",
        rank=rank.rank,
        step=hit.step,
        op=hit.origin or hit.op,
        io=hit.io,
        slot=hit.slot,
        source=told.source,
    )


def _is_of(cause: CauseView, hit: HitRef) -> bool:
    """Whether ``hit`` is one of ``cause``. Of NaN and Inf of unknown origin the first in execution
    order is named, which is nearer to where they were made than the one that paused."""
    if hit.origin is not None:
        return cause.origin == hit.origin
    is_alike = (cause.watchpoint, cause.condition) == (hit.watchpoint, hit.condition)
    is_now = cause.first.step == hit.step
    return not cause.origin and is_alike and is_now and hit.condition in NON_FINITE


def _loss_headline(
    rank: RankView,
    step: int,
    points: Sequence[LossPoint],
    causes: CauseTable,
    several: bool,
) -> RunHeadline:
    """The loss is broken; why, if hits tell it."""
    value = _bad_loss(points, step)
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
        command=_finding_command(rank),
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


def stored_loss_headline(
    losses: Mapping[int, Sequence[LossPoint]], *, is_one_of_several: bool
) -> RunHeadline | None:
    """The broken loss of a stored run in which no op is known to have made it."""
    for number, points in sorted(losses.items()):
        step = first_bad_loss(points)
        if step is None:
            continue
        value = _bad_loss(points, step)
        prefix = f"rank {number}: " if is_one_of_several else ""
        title = f"{prefix}the loss is {value} since step {step}"
        return RunHeadline(
            kind="loss",
            severity="error",
            title=title,
            text=f"{title}; these files do not tell which op made it.",
            advice="Run it again with 'sonde run --overflow': the first op that makes NaN or Inf "
            "is named, with its line and why.",
            rank=number,
            step=step,
        )
    return None


def _bad_loss(points: Sequence[LossPoint], step: int) -> object:
    return next(point.loss for point in points if point.step == step and not _is_finite(point))


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
