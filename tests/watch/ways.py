"""Runs one scenario in each way in which Sonde judges NaN and Inf, in this process."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import torch
from tests.adapters.torch.dumping import config
from tests.debugger.driving import driven
from tests.debugger.hub import WAIT, Hub, RankConnection, watchpoint

from sonde.adapters.torch.attach import attach
from sonde.server.dumps.check import check_dump
from sonde.wire.questions import AskCheck, Checked
from sonde.wire.rank import Status, StepDone
from sonde.wire.shapes import ConditionSpec, Hit, WatchpointSpec
from sonde.wire.watchpoints import WatchpointDraft

SCENARIOS = Path(__file__).parent / "scenarios"
CONDITIONS = ("tensor_overflow", "operator_overflow", "weight_overflow", "gradient_exploding")
Training = Callable[[], object]


@dataclass(frozen=True, order=True)
class Found:
    """One hit, without what is said of it in words. ``count``: in how many steps."""

    step: int
    op: str
    slot: int
    part: str
    origin: str | None
    count: int = field(default=1, compare=False)


@dataclass(frozen=True)
class Verdict:
    """``hits`` of every watchpoint by its condition; ``undecided``: ops that had NaN or Inf which
    is no fault."""

    hits: dict[str, frozenset[Found]]
    undecided: frozenset[str]


def script(name: str) -> Training:
    (path,) = SCENARIOS.glob(f"{name}*.py")
    return program(path)


def program(path: Path, **names: object) -> Training:
    """A scenario as something to call, with ``names`` as global variables; what it prints is
    dropped."""
    code = compile(path.read_text(), str(path), "exec")

    def run() -> None:
        with quiet():
            exec(code, {"__name__": "__main__", "__file__": str(path), **names})

    return run


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    state = torch.random.get_rng_state()
    with contextlib.redirect_stdout(io.StringIO()):
        yield
    torch.random.set_rng_state(state)


def specs() -> tuple[WatchpointSpec, ...]:
    return tuple(
        msgspec.structs.replace(watchpoint(number, condition), break_after=0)
        for number, condition in enumerate(CONDITIONS, 1)
    )


def verdict(hits: list[Hit], steps: set[int]) -> Verdict:
    latest = {(hit.rank, hit.number): hit for hit in hits}  # one sent again replaces the first
    found: dict[str, set[Found]] = {condition: set() for condition in CONDITIONS}
    for hit in latest.values():
        if hit.verdict == "hit" and hit.step in steps:
            place = (hit.step, hit.op, hit.slot, hit.part, hit.origin)
            found[hit.condition].add(Found(*place, count=hit.count))
    undecided = {hit.op for hit in latest.values() if hit.verdict == "undecided"}
    return Verdict({each: frozenset(hits) for each, hits in found.items()}, frozenset(undecided))


def live(training: Training) -> tuple[Verdict, list[Checked], set[int]]:
    """Debugged, with "check now" at the end of every step; the steps that ended."""
    checks: list[Checked] = []

    def person(rank: RankConnection) -> None:
        rank.paused()
        while True:
            rank.control("step")
            next_pause(rank)
            if rank.is_over:
                return
            checks.append(rank.answer("", AskCheck(), Checked))

    _, rank = driven(training, person, hub=Hub(paused=True, watchpoints=specs()))
    steps = {each.point.step for each in rank.all(StepDone)}
    return verdict(rank.hits, steps), checks, steps


def next_pause(rank: RankConnection) -> None:
    """Wait until the training is paused again or over."""

    def is_paused() -> bool:
        since = rank.seen[rank._mark :]
        return any(isinstance(each, Status) and each.state == "paused" for each in since)

    with rank.changed:
        assert rank.changed.wait_for(lambda: rank.is_over or is_paused(), WAIT)


def dumped(training: Training, path: Path, steps: set[int]) -> Verdict:
    """Dumped, and ``steps`` of the dump checked."""
    with attach(config(path), starts_at_once=False):
        training()
    drafts = [WatchpointDraft(each, (ConditionSpec(each),)) for each in CONDITIONS]
    return verdict(list(check_dump(path, drafts).in_order()), steps)


@dataclass(frozen=True)
class Overflow:
    """``entries``: ops with non-finite outputs, as ``overflow.json`` has them; ``said``: what the
    command says at its end."""

    entries: dict[tuple[int, str], tuple[str, str | None]]
    said: str


def overflowing(training: Training, path: Path) -> Overflow:
    error = io.StringIO()
    options = {"debug_mode": "overflow", "overflow_number": 0}
    with contextlib.redirect_stderr(error), attach(config(path, **options), starts_at_once=False):
        training()
    return Overflow(overflow_entries(path), error.getvalue())


def overflow_entries(path: Path) -> dict[tuple[int, str], tuple[str, str | None]]:
    """The part and the origin of every op with non-finite outputs, by step and name."""
    entries = {}
    for file in path.rglob("[0-9]*/overflow.json"):
        step = int(file.parent.name)
        for entry in json.loads(file.read_text()):
            if any(_bad(each) for each in entry["outputs"]):
                origin = entry["op"] if entry["role"] == "producer" else entry["from"]
                entries[(step, entry["op"])] = (entry["role"], origin)
    return entries


def _bad(tensor: dict[str, int]) -> bool:
    return any(tensor[f"{each}_count"] for each in ("nan", "positive_inf", "negative_inf"))
