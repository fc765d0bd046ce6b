"""The data direction: an empty queue, too few workers, a slow dataset."""

from __future__ import annotations

import os

from sonde.core.finding import Finding
from sonde.core.graph import Source
from sonde.core.number_text import percent
from sonde.profile.document import LoaderItem
from sonde.profile.places import Places
from sonde.profile.record.object_tracking import SeenLoader
from sonde.profile.replay.loaders import replay_loader, slow_lines, worker_counts
from sonde.profile.rules.evidence import (
    LEAST_SECONDS,
    LEAST_SHARE,
    How,
    ProfileEvidence,
    judgement,
    milliseconds,
)


def find_data_waits(evidence: ProfileEvidence) -> list[Finding]:
    """Waiting for a DataLoader, its reason, and what more workers bring when they are tried."""
    waited, busy = evidence.waits()
    if waited < LEAST_SHARE * (waited + busy) or not evidence.loaders:
        return []
    seen, item = evidence.loaders[-1]
    gains = _gain_by_workers(seen, item, busy, waited)
    workers = min((n for n in gains if gains[n] >= 0.9 * max(gains.values())), default=None)
    helps = workers is not None and gains[workers] >= LEAST_SHARE * (waited + busy)
    if not helps and waited < LEAST_SECONDS:
        return []
    if item.workers == 0:
        lines = evidence.data_lines or slow_lines(seen.loader, evidence.places)
        return [_in_process(evidence, seen, waited, lines, gains, workers if helps else None)]
    if helps and workers is not None:
        return [_too_few(evidence, seen, item, waited, gains[workers], workers)]
    lines = slow_lines(seen.loader, evidence.places)
    return [_slow_dataset(evidence, seen, item, waited, lines)]


def _gain_by_workers(
    seen: SeenLoader, item: LoaderItem, busy: float, waited: float
) -> dict[int, float]:
    """Seconds a step saved with other numbers of workers, as measured by loading alone.

    Loading and training share the cores: what the training needs of them is taken into account by
    adding its time where there are not more cores than workers.
    """
    gains: dict[int, float] = {}
    cores = os.cpu_count() or 1
    for workers in worker_counts(item.workers):
        between = replay_loader(seen.loader, workers)
        if between is not None:
            step = (
                max(busy, between)
                if workers < cores
                else max(busy, between, busy / cores + between)
            )
            gains[workers] = max(0.0, busy + waited - step)
    return gains


def _in_process(
    evidence: ProfileEvidence,
    seen: SeenLoader,
    waited: float,
    lines: dict[Source, float],
    gains: dict[int, float],
    workers: int | None,
) -> Finding:
    line = _hottest(lines) or _dataset_line(seen, evidence.places) or seen.source
    gain = gains[workers] if workers is not None else waited
    how: How = "replayed" if workers is not None else "in the trace"
    with_workers = (
        f"; with num_workers={workers} at {_at(seen.source)} it takes "
        f"{milliseconds(waited - gain)} instead of {milliseconds(waited)}"
        if workers is not None
        else ""
    )
    return judgement(
        evidence,
        "data-wait",
        "data",
        message=f"{_share(evidence, waited)} of a step is spent loading data in the "
        f"training process, most of it at this line{with_workers}",
        advice=(
            f"load in workers: DataLoader(..., num_workers={workers}), and make this line faster"
            if workers is not None
            else "make this line faster, or prepare the data once, before training"
        ),
        source=line,
        gain_seconds=gain,
        share=gain / sum(evidence.waits()),
        how=how,
        waited_seconds=waited,
        workers=0,
        gain_by_workers={str(count): seconds for count, seconds in gains.items()},
        loader=_at(seen.source),
    )


def _too_few(
    evidence: ProfileEvidence,
    seen: SeenLoader,
    item: LoaderItem,
    waited: float,
    gain: float,
    workers: int,
) -> Finding:
    return judgement(
        evidence,
        "too-few-workers",
        "data",
        message=f"{_share(evidence, waited)} of a step is spent waiting for "
        f"{item.workers} worker{'s' if item.workers > 1 else ''} of this DataLoader, whose queue "
        f"is empty for {percent(item.waits)} of the batches",
        advice=f"DataLoader(..., num_workers={workers})",
        source=seen.source or seen.looped_at,
        gain_seconds=gain,
        share=gain / sum(evidence.waits()),
        how="replayed",
        waited_seconds=waited,
        workers=item.workers,
        better_workers=workers,
    )


def _slow_dataset(
    evidence: ProfileEvidence,
    seen: SeenLoader,
    item: LoaderItem,
    waited: float,
    lines: dict[Source, float],
) -> Finding:
    return judgement(
        evidence,
        "slow-dataset",
        "data",
        message=f"{_share(evidence, waited)} of a step is spent waiting for data, and more "
        f"than {item.workers} workers do not help: the workers are mostly at this line",
        advice="make this line faster, or prepare the data once, before training",
        source=_hottest(lines) or _dataset_line(seen, evidence.places) or seen.source,
        gain_seconds=waited,
        share=waited / sum(evidence.waits()),
        how="in the trace",
        waited_seconds=waited,
        workers=item.workers,
    )


def _share(evidence: ProfileEvidence, seconds: float) -> str:
    return percent(seconds / sum(evidence.waits()))


def _hottest(lines: dict[Source, float]) -> Source | None:
    return max(lines, key=lambda source: lines[source]) if lines else None


def _dataset_line(seen: SeenLoader, places: Places) -> Source | None:
    return places.of_function(getattr(type(seen.loader.dataset), "__getitem__", None))


def _at(source: Source | None) -> str:
    return f"{os.path.basename(source.file)}:{source.line}" if source is not None else "the loader"
