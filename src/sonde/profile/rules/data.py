"""The data direction: an empty queue, too few workers, a slow dataset."""

from __future__ import annotations

import os
from typing import Any

from sonde.core.finding import Finding
from sonde.core.graph import Source
from sonde.core.text.number_text import duration, percent
from sonde.profile.document import LoaderItem
from sonde.profile.record.object_tracking import SeenLoader
from sonde.profile.replay.loaders import replay_loader, slow_lines, worker_counts
from sonde.profile.rules.evidence import (
    LEAST_SECONDS,
    LEAST_SHARE,
    LONG_WAIT_SHARE,
    ProfileEvidence,
)

_FASTER_LINE = "make this line faster, or prepare the data once, before training"


def find_data_waits(evidence: ProfileEvidence) -> list[Finding]:
    """Waiting for a DataLoader, the reason, and the measured gain of more workers."""
    waited, busy = evidence.waits()
    if waited <= 0 or waited < LEAST_SHARE * (waited + busy):
        return []
    if not evidence.loaders:
        return _from_an_unseen_loader(evidence, waited, busy)
    seen, item = evidence.loaders[-1]
    gains = _gain_by_workers(seen, item, busy, waited)
    workers = min((n for n in gains if gains[n] >= 0.9 * max(gains.values())), default=None)
    if workers is not None and gains[workers] < LEAST_SHARE * (waited + busy):
        workers = None
    if workers is None and _is_negligible(evidence, waited, busy):
        return []
    gain = waited if workers is None else gains[workers]
    facts: dict[str, Any] = {
        "gain_seconds": gain,
        "share": gain / (waited + busy),
        "how": "in the trace" if workers is None else "replayed",
        "waited_seconds": waited,
        "workers": item.workers,
    }
    share = percent(waited / (waited + busy))
    if item.workers == 0:
        facts["gain_by_workers"] = {str(count): seconds for count, seconds in gains.items()}
        return _in_process(evidence, seen, share, workers, facts)
    return _in_workers(evidence, seen, item, share, workers, facts)


def _is_negligible(evidence: ProfileEvidence, waited: float, busy: float) -> bool:
    """Whether a wait that nothing simple saves is too short to report."""
    is_long = evidence.long_wait("data") > 0 or waited >= LONG_WAIT_SHARE * (waited + busy)
    return waited < LEAST_SECONDS and not is_long


def _from_an_unseen_loader(evidence: ProfileEvidence, waited: float, busy: float) -> list[Finding]:
    """The finding for a loader that is not torch's own, or was created in an unusual way."""
    if _is_negligible(evidence, waited, busy):
        return []
    lines = evidence.data_lines
    share = waited / (waited + busy)
    return evidence.finding(
        "data-wait",
        "data",
        message=f"{percent(share)} of a step is spent waiting for data"
        + (", most of it at this line" if lines else ""),
        advice=_FASTER_LINE if lines else "load in workers: DataLoader(..., num_workers=N)",
        source=max(lines, key=lines.__getitem__) if lines else None,
        gain_seconds=waited,
        share=share,
        waited_seconds=waited,
    )


def _in_workers(
    evidence: ProfileEvidence,
    seen: SeenLoader,
    item: LoaderItem,
    share: str,
    workers: int | None,
    facts: dict[str, Any],
) -> list[Finding]:
    """The finding for a loader with workers: more ``workers`` help, or (None) a faster dataset."""
    if workers is not None:
        return evidence.finding(
            "too-few-workers",
            "data",
            message=f"{share} of a step is spent waiting for {item.workers} "
            f"worker{'s' if item.workers > 1 else ''} of this DataLoader, whose queue is empty "
            f"for {percent(item.waits)} of the batches",
            advice=f"DataLoader(..., num_workers={workers})",
            source=seen.source or seen.looped_at,
            better_workers=workers,
            **facts,
        )
    return evidence.finding(
        "slow-dataset",
        "data",
        message=f"{share} of a step is spent waiting for data, and more than {item.workers} "
        "workers do not help: the workers are mostly at this line",
        advice=_FASTER_LINE,
        source=_slowest_line(evidence, seen, {}),
        **facts,
    )


def _in_process(
    evidence: ProfileEvidence,
    seen: SeenLoader,
    share: str,
    workers: int | None,
    facts: dict[str, Any],
) -> list[Finding]:
    """The finding for a loader without workers."""
    loader = seen.source
    at = f"{os.path.basename(loader.file)}:{loader.line}" if loader is not None else "the loader"
    with_workers, advice = "", _FASTER_LINE
    if workers is not None:
        waited = facts["waited_seconds"]
        with_workers = (
            f"; with num_workers={workers} at {at} it would take "
            f"{duration(waited - facts['gain_seconds'])} instead of {duration(waited)}"
        )
        advice = (
            f"load in workers: DataLoader(..., num_workers={workers}), and make this line faster"
        )
    return evidence.finding(
        "data-wait",
        "data",
        message=f"{share} of a step is spent loading data in the training process, most of it at "
        f"this line{with_workers}",
        advice=advice,
        source=_slowest_line(evidence, seen, evidence.data_lines),
        loader=at,
        **facts,
    )


def _gain_by_workers(
    seen: SeenLoader, item: LoaderItem, busy: float, waited: float
) -> dict[int, float]:
    """Seconds per step saved with other numbers of workers, measured by loading alone.

    Loading and training share the cores, so with as many workers as cores the time that the
    training needs of them is added.
    """
    gains: dict[int, float] = {}
    cores = os.cpu_count() or 1
    for workers in worker_counts(item.workers):
        between = replay_loader(seen.loader, workers)
        if between is not None:
            shared = busy / cores + between if workers >= cores else 0.0
            left = max(0.0, max(between, shared) - busy)
            gains[workers] = max(0.0, waited - left)
    return gains


def _slowest_line(
    evidence: ProfileEvidence, seen: SeenLoader, sampled: dict[Source, float]
) -> Source | None:
    """The line with most samples, else that of the dataset's ``__getitem__``, or the loader's."""
    lines = sampled or slow_lines(seen.loader, evidence.places)
    if lines:
        return max(lines, key=lines.__getitem__)
    getitem = getattr(type(seen.loader.dataset), "__getitem__", None)
    return evidence.places.of_function(getitem) or seen.source
