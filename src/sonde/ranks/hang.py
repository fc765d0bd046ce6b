"""A job that makes no progress: which rank stands where, and which rank is missing."""

from __future__ import annotations

from collections.abc import Mapping

from sonde.core.finding import Finding
from sonde.core.text.rank_numbers import ranks_text
from sonde.ranks.check import finding
from sonde.ranks.collectives import CollectiveLog, call_text
from sonde.ranks.ends import RankEnd
from sonde.ranks.report import LoopReport, StackReport


def describe_hang(
    log: CollectiveLog,
    stacks: Mapping[int, StackReport],
    steps: Mapping[int, int],
    gone: Mapping[int, str],
    silent_seconds: float,
) -> Finding:
    """``steps``: the last step that each rank ended; ``gone``: why ranks are not connected."""
    waiting = list(log.waiting())
    lines = [_line(rank, log, stacks, steps, gone) for rank in sorted({*steps, *stacks, *gone})]
    missing: list[int] = []
    if gone:
        missing = sorted(gone)
        what = f"{ranks_text(missing)} {'has' if len(missing) == 1 else 'have'} ended"
    elif waiting:
        call, missing = waiting[0]
        others = sorted(rank for rank in steps if rank not in missing)
        what = (
            f"{ranks_text(others)} {'waits' if len(others) == 1 else 'wait'} in {call_text(call)} "
            f"for {ranks_text(missing)}"
        )
    else:
        stand = [f"rank {rank} at {stacks[rank].source}" for rank in sorted(stacks)]
        what = f"the ranks stand {', '.join(stand[:4])}" if stand else "no rank answers"
    return finding(
        "no-progress",
        "supported",
        f"no rank has made progress for {silent_seconds:.0f} s: {what}",
        step=max(steps.values(), default=0),
        ranks=missing or sorted(steps),
        evidence={
            "ranks_at": lines,
            "stacks": {rank: list(stack.stack) for rank, stack in stacks.items()},
        },
        advice="compare the lines at which the ranks stand: a rank that took another branch calls "
        "another collective, or none",
        places=tuple(stacks[rank].source for rank in missing if rank in stacks),
    )


def describe_stop(
    log: CollectiveLog, end: RankEnd, steps: Mapping[int, int], loop: LoopReport | None = None
) -> Finding:
    """A rank that ended while others went on. ``steps``: the last step of each rank. ``loop``: that
    which a rank without an error has left."""
    rank = end.rank
    after = f"after step {steps[rank]}" if rank in steps else "before its first step"
    last = log.last.get(rank)
    where = f"; its last collective was {call_text(last)}" if last is not None else ""
    what = f"the process of rank {rank} has ended {after}, and the other ranks have not"
    if end.error is not None:
        what = f"rank {rank} raised {end.error} {after}, and the other ranks did not"
    advice = f"look at the output of rank {rank}: it raised, was killed, or left its loop early"
    if loop is not None:
        advice = (
            f"let all ranks leave the loop at {loop.loop} after the same step: decide it from what "
            "all of them have, and give them equally many batches"
        )
    source = "" if last is None else last.source
    left = "" if loop is None else _left(loop)
    return finding(
        "rank-stopped",
        "established",
        f"{what}{left}{where}",
        step=steps.get(rank, -1) + 1,
        ranks=(rank,),
        evidence={"last_step": steps.get(rank, -1), "error": str(end.error or "")},
        advice=advice,
        places=(
            *(() if loop is None else (*loop.exits, loop.loop)),
            source if end.error is None else end.error.source or source,
        ),
    )


def _left(loop: LoopReport) -> str:
    by = " or ".join(loop.exits)
    how = f"which {by} leaves" if by else "which has ended"
    return f"; its last step was at {loop.step_line}, in the loop at {loop.loop}, {how}"


def _line(
    rank: int,
    log: CollectiveLog,
    stacks: Mapping[int, StackReport],
    steps: Mapping[int, int],
    gone: Mapping[int, str],
) -> str:
    parts = [f"rank {rank}: ended step {steps[rank]}" if rank in steps else f"rank {rank}"]
    if rank in gone:
        parts.append(gone[rank])
    if rank in stacks:
        parts.append(f"stands at {stacks[rank].source}")
    last = log.last.get(rank)
    if last is not None:
        parts.append(f"last collective {call_text(last)}")
    return ", ".join(parts)
