"""The stored form of a profile: ``profile.json``, described in docs/profile.md.

Times are in seconds, sizes in bytes. An unknown number is null; no number is NaN or infinite.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from sonde.core.errors import SondeError, UsageError
from sonde.core.files.atomic_file import write_whole
from sonde.core.files.input_file import read_input
from sonde.core.graph import Source

FORMAT = 1
FILE_NAME = "profile.json"


class Gain(msgspec.Struct, frozen=True):
    """What a step gains by following the advice of a finding, and how that was measured.

    ``how`` is "in the trace" (the time spent on work that could be removed), "replayed" (the same
    work done both ways, after the program) or "tried" (the program run both ways).
    """

    seconds: float
    share: float
    how: str


class FoundItem(msgspec.Struct, frozen=True):
    """A finding: description, place, evidence, advice, and the gain of a step. ``rule``: a kind of
    the catalogue, docs/rules."""

    rule: str
    direction: str
    severity: str
    message: str
    advice: str
    gain: Gain
    place: Source | None = None
    evidence: dict[str, Any] = {}
    status: str = "supported"


class StepItem(msgspec.Struct, frozen=True):
    """One step. ``parts`` is given for profiled steps; its sum is ``seconds``."""

    number: int
    seconds: float
    kind: str
    is_outlier: bool = False
    parts: dict[str, float] | None = None


class TimelineItem(msgspec.Struct, frozen=True):
    """One profiled step in detail; times are seconds since it began.

    ``parts`` are (part, begin, end); ``ops`` are (op, module, begin, end), only the longest ones.
    """

    step: int
    parts: tuple[tuple[str, float, float], ...]
    ops: tuple[tuple[str, str, float, float], ...]


class OpItem(msgspec.Struct, frozen=True):
    """All calls of one op with the same shapes, module, phase and line; numbers are per step.

    ``seconds`` is own time. ``share_of_machine`` is the time that this machine needs at its peak
    for the floating-point operations or the bytes, whichever is longer, divided by ``seconds``.
    """

    op: str
    module: str
    phase: str
    place: Source | None
    shapes: str
    calls: float
    seconds: float
    python_seconds: float
    flops: float | None
    nbytes: float | None
    share_of_machine: float | None


class ModuleItem(msgspec.Struct, frozen=True):
    """A module; the seconds are per step and, except ``own``, include the modules inside it."""

    name: str
    kind: str
    forward: float
    backward: float
    own: float
    children: tuple[ModuleItem, ...] = ()


class LineItem(msgspec.Struct, frozen=True):
    """A line of the user's code and the seconds that a step spends on it."""

    place: Source
    forward: float
    backward: float
    optimizer: float
    other: float
    calls: float

    @property
    def seconds(self) -> float:
        return self.forward + self.backward + self.optimizer + self.other


class MemoryItem(msgspec.Struct, frozen=True):
    """Memory that torch allocated in one step, relative to the beginning of the step.

    ``timeline`` contains pairs of seconds since the step began and bytes.
    """

    step: int
    peak: int
    peak_at: float
    peak_part: str
    resident: int
    timeline: tuple[tuple[float, int], ...]
    modules: dict[str, int]


class CollectiveItem(msgspec.Struct, frozen=True):
    """The collectives of a step: calls, bytes, and how much of their time overlaps computation."""

    calls: float
    nbytes: float | None
    under_way: float
    exposed: float
    overlapped: float


class LoaderItem(msgspec.Struct, frozen=True):
    """A DataLoader; ``waits`` is the share of its batches that were not ready when requested."""

    place: Source | None
    workers: int
    batch_size: int | None
    pins_memory: bool
    waits: float


class CompilationItem(msgspec.Struct, frozen=True):
    """One compilation by torch.compile in the profiled steps."""

    place: Source
    seconds: float
    reason: str


class TriedItem(msgspec.Struct, frozen=True):
    """A variant of the program that was run, compared with the program as it is.

    ``before`` and ``after`` are seconds per step; ``ratios`` has one number per round.
    ``loss_difference`` is the largest relative difference of the mean loss of a round; None if the
    program has no loss to compare.
    """

    name: str
    verdict: str
    before: float | None = None
    after: float | None = None
    ratios: tuple[float, ...] = ()
    loss_difference: float | None = None
    place: Source | None = None
    note: str = ""


class Machine(msgspec.Struct, frozen=True):
    """The peak performance of this machine, per second, with ``threads`` threads."""

    processor: str
    threads: int
    flops: dict[str, float]
    bytes_per_second: float


class ProfileSummary(msgspec.Struct, frozen=True):
    """The most important numbers.

    ``step_time`` is the median of the steps that were not profiled, without the first two, if
    there are at least three, else of the profiled steps. ``parts`` are means over profiled steps.
    ``undisturbed_step_time`` is the sum of the medians of the parts of profiled steps, which
    delays by other programs do not change: the gains of findings are shares of it. None in a
    profile of an earlier version. ``jitter`` is the interquartile range of all steps divided by the
    median.
    """

    step_time: float
    profiled_step_time: float
    parts: dict[str, float]
    jitter: float
    outliers: int
    steps: int
    peak_memory: int | None
    overhead: float | None
    undisturbed_step_time: float | None = None


class Profile(msgspec.Struct, frozen=True):
    """One profile of one rank of one program."""

    format: int
    program: tuple[str, ...]
    created: str
    versions: dict[str, str]
    rank: int
    ranks: int
    machine: Machine
    summary: ProfileSummary
    steps: tuple[StepItem, ...]
    timeline: TimelineItem
    ops: tuple[OpItem, ...]
    modules: ModuleItem
    lines: tuple[LineItem, ...]
    memory: MemoryItem | None
    collectives: CollectiveItem | None
    loaders: tuple[LoaderItem, ...]
    compilations: tuple[CompilationItem, ...]
    findings: tuple[FoundItem, ...]
    worth_trying: tuple[str, ...]
    tried: tuple[TriedItem, ...] = ()
    notes: tuple[str, ...] = ()


_MOST_BYTES = 1 << 28


def save_profile(profile: Profile, path: Path) -> None:
    write_whole(path, msgspec.json.format(msgspec.json.encode(profile), indent=1) + b"\n")


def load_profile(path: Path) -> Profile:
    """The profile in a file, or in a directory that `sonde profile` wrote."""
    file = path / FILE_NAME if path.is_dir() else path
    try:
        text = read_input(file, _MOST_BYTES)
    except OSError as error:
        raise UsageError(
            f"{path}: no profile can be read: {error.strerror}; give the directory or the "
            f"{FILE_NAME} that sonde profile wrote",
            slug="profile-file",
        ) from None
    try:
        profile = msgspec.json.decode(text, type=Profile)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SondeError(f"{file} is not a profile: {error}", slug="profile-file") from None
    if profile.format != FORMAT:
        raise SondeError(
            f"{file} has format {profile.format}, this version of Sonde reads {FORMAT}; "
            "profile again",
            slug="profile-file",
        )
    return profile
