"""The profile as it is kept: ``profile.json``, described in docs/profile.md.

Times are seconds, sizes bytes. A number that is not known is null; none is NaN or infinite.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from sonde.core.errors import SondeError, UsageError

FORMAT = 1
FILE_NAME = "profile.json"


class CodePlace(msgspec.Struct, frozen=True):
    """A line of the user's code."""

    file: str
    line: int
    function: str = ""
    code: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Gain(msgspec.Struct, frozen=True):
    """What following a finding brings, and how that was measured.

    ``how`` is "in the trace" (time spent on what would go), "replayed" (the same work done both
    ways, here) or "tried" (the program run both ways).
    """

    seconds: float
    share: float
    how: str


class FoundItem(msgspec.Struct, frozen=True):
    """A finding: what, where, on which evidence, what to do, and what that brings a step."""

    rule: str
    direction: str
    severity: str
    message: str
    advice: str
    gain: Gain
    place: CodePlace | None = None
    evidence: dict[str, Any] = {}


class StepItem(msgspec.Struct, frozen=True):
    """One step. ``parts`` is there for profiled steps and sums up to ``seconds``."""

    number: int
    seconds: float
    kind: str
    is_outlier: bool = False
    parts: dict[str, float] | None = None


class TimelineItem(msgspec.Struct, frozen=True):
    """One profiled step in detail: seconds since it began.

    ``parts`` are (part, begin, end); ``ops`` are (op, module, begin, end), the longest of them.
    """

    step: int
    parts: tuple[tuple[str, float, float], ...]
    ops: tuple[tuple[str, str, float, float], ...]


class OpItem(msgspec.Struct, frozen=True):
    """All calls of one op with the same shapes, from one module, phase and line; per step.

    ``seconds`` is own time. ``share_of_machine`` is the time this machine needs for so many
    floating-point operations or bytes, whichever is more, over ``seconds``.
    """

    op: str
    module: str
    phase: str
    place: CodePlace | None
    shapes: str
    calls: float
    seconds: float
    python_seconds: float
    flops: float | None
    nbytes: float | None
    share_of_machine: float | None


class ModuleItem(msgspec.Struct, frozen=True):
    """A module and those inside it; the seconds are a step's and include those inside."""

    name: str
    kind: str
    forward: float
    backward: float
    own: float
    children: tuple[ModuleItem, ...] = ()


class LineItem(msgspec.Struct, frozen=True):
    """A line of the user's code and what a step spends on it, backward included."""

    place: CodePlace
    forward: float
    backward: float
    optimizer: float
    other: float
    calls: float

    @property
    def seconds(self) -> float:
        return self.forward + self.backward + self.optimizer + self.other


class MemoryItem(msgspec.Struct, frozen=True):
    """Memory that torch allocated in one step, on top of what it had at its beginning.

    ``timeline`` are pairs of seconds since the step began and bytes.
    """

    step: int
    peak: int
    peak_at: float
    peak_part: str
    resident: int
    timeline: tuple[tuple[float, int], ...]
    modules: dict[str, int]


class CollectiveItem(msgspec.Struct, frozen=True):
    """Collectives of a step: how many, how much, and how much of their time was hidden."""

    calls: float
    nbytes: float | None
    under_way: float
    exposed: float
    overlapped: float


class LoaderItem(msgspec.Struct, frozen=True):
    """A DataLoader; ``waits`` is the share of its batches that were not ready when asked for."""

    place: CodePlace | None
    workers: int
    batch_size: int | None
    pins_memory: bool
    waits: float


class CompilationItem(msgspec.Struct, frozen=True):
    """One compilation by torch.compile in the profiled steps."""

    place: CodePlace
    seconds: float
    reason: str


class TriedItem(msgspec.Struct, frozen=True):
    """A variant of the program that was run, against the program as it is, a step's seconds.

    ``ratios`` has one number a round. ``loss_difference`` is the largest relative difference of
    the mean loss of a round; None where the program has no loss to compare.
    """

    name: str
    verdict: str
    before: float | None
    after: float | None
    ratios: tuple[float, ...]
    loss_difference: float | None
    place: CodePlace | None = None
    note: str = ""


class Machine(msgspec.Struct, frozen=True):
    """What this machine can do, measured once: per second, with ``threads`` threads."""

    processor: str
    threads: int
    flops: dict[str, float]
    bytes_per_second: float


class ProfileSummary(msgspec.Struct, frozen=True):
    """The numbers of the first screen.

    ``step_time`` is the median of steps that were not profiled, where there are three or more of
    them after the first two, else of those that were. ``parts`` are means of profiled steps.
    ``jitter`` is the spread of the middle half of all steps over the median.
    """

    step_time: float
    profiled_step_time: float
    parts: dict[str, float]
    jitter: float
    outliers: int
    steps: int
    peak_memory: int | None
    overhead: float | None


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


def save_profile(profile: Profile, path: Path) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(profile), indent=1) + b"\n")


def load_profile(path: Path) -> Profile:
    """The profile in a file, or in a directory that `sonde profile` wrote."""
    file = path / FILE_NAME if path.is_dir() else path
    try:
        text = file.read_bytes()
    except OSError as error:
        raise UsageError(
            f"{path}: no profile can be read there: {error.strerror}; give the directory or the "
            f"{FILE_NAME} that sonde profile wrote",
            slug="profile-file",
        ) from None
    try:
        profile = msgspec.json.decode(text, type=Profile)
    except msgspec.DecodeError as error:
        raise SondeError(f"{file}: is no profile: {error}", slug="profile-file") from None
    if profile.format != FORMAT:
        raise SondeError(
            f"{file}: has format {profile.format}, this version of Sonde reads {FORMAT}; "
            "profile again",
            slug="profile-file",
        )
    return profile
