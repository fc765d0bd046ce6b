"""Exceptions of the program's signal handlers reach the program, wherever Sonde's code is.

``test_interruptions.py`` runs these tests in a process of their own: what other tests left in the
memory would be collected between the signals, which takes longer than the time between two.
"""

from __future__ import annotations

import gc
import random
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from tests.adapters.torch.modes import MODES, observed
from tests.adapters.torch.watching import same, watch
from torch import nn

ALARMS = 60


class ProgramTimeoutError(Exception):
    pass


class ProgramRuntimeError(RuntimeError, TimeoutError, ValueError, KeyError):
    """Sonde catches errors of torch, of files and of look-ups in many places."""


@pytest.fixture(autouse=True)
def handler_restored() -> Iterator[None]:
    before = signal.getsignal(signal.SIGVTALRM)
    # Python ignores what a handler raises in a function that it calls when an object dies. Objects
    # of other tests, with functions of torch, must not die here.
    gc.collect()
    yield
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    signal.signal(signal.SIGVTALRM, before)


def make_training() -> Any:
    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    optimizer = torch.optim.Adam(net.parameters())

    def step() -> None:
        net(torch.randn(4, 8)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def interrupted(step: Any, kind: type[Exception], seed: int) -> tuple[int, int]:
    """How many exceptions a signal handler raised, and how many arrived."""
    raised = caught = 0
    excluded = excluded_keys()
    step()  # The optimizer makes its state, which an interruption would leave incomplete.

    def handler(number: int, frame: FrameType | None) -> None:
        nonlocal raised
        raised += 1
        signal.setitimer(signal.ITIMER_VIRTUAL, 2)  # Ends the loop if this one is lost.
        raise kind("late")

    signal.signal(signal.SIGVTALRM, handler)
    moments = random.Random(seed)
    for _ in range(ALARMS):
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, moments.uniform(0.0002, 0.006))
            while True:
                step()
        except kind:
            caught += 1
            # Torch's optimizers restore the grad mode in a ``finally`` block, which a signal
            # handler can interrupt, with Sonde and without.
            torch.set_grad_enabled(True)
        # No guard of Sonde is on any more: with one, the program would compute no gradients.
        assert excluded_keys() == excluded
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return raised, caught


def excluded_keys() -> str:
    """What torch's dispatcher passes over in this thread."""
    return str(torch._C._dispatch_tls_local_exclude_set())


@pytest.mark.parametrize("kind", [ProgramTimeoutError, ProgramRuntimeError])
@pytest.mark.parametrize("mode", MODES)
def test_no_exception_of_a_signal_handler_is_lost_and_sonde_stays_on(
    mode: str,
    kind: type[Exception],
    matcher: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    step = make_training()
    with observed(mode, tmp_path) as capture:
        assert interrupted(step, kind, seed=len(mode)) == (ALARMS, ALARMS)
        for _ in range(3):
            step()
        assert capture.adapter.is_observing
        assert capture.adapter.observer.last.parent is None
        step_before = capture.adapter._session.step
        step()
        assert capture.adapter._session.step == step_before + 1
        assert not capture.adapter.observer.is_suspended
    told = capfd.readouterr().err
    assert "failed" not in told
    assert "stops here" not in told
    assert "[step-dropped]" in told
    gaps = capture.adapter._session.coverage.unchosen_gaps
    assert [gap.reason for gap in gaps] == ["step_dropped"]


def test_the_steps_after_an_interruption_are_observed_whole(matcher: str) -> None:
    step = make_training()
    with watch() as seen:
        step()
        interrupted(step, ProgramTimeoutError, seed=1)
        step()  # ends the step that was interrupted last
        count = len(seen.steps)
        step()
        step()
        last = sorted(seen.steps)[-2:]
    assert len(seen.steps) == count + 2
    names = [seen.names(number) for number in (0, *last)]
    # The first step also makes the state of the optimizer.
    assert names[1] == names[2]
    assert set(names[1]) <= set(names[0]) | set(names[1])
    assert len(names[1]) > 20


@pytest.mark.parametrize("mode", MODES)
def test_a_signal_handler_may_run_torch_ops(
    mode: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    calls = 0

    def handler(number: int, frame: FrameType | None) -> None:
        nonlocal calls
        calls += 1
        torch.ones(3).add_(1).sum()
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0013)

    def train() -> list[torch.Tensor]:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
        optimizer = torch.optim.Adam(net.parameters())
        for _ in range(40):
            net(torch.ones(4, 8)).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        return list(net.parameters())

    bare = train()
    signal.signal(signal.SIGVTALRM, handler)
    with observed(mode, tmp_path):
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0013)
        seen = train()
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    assert calls
    assert same([each.detach() for each in bare], [each.detach() for each in seen])
    told = capfd.readouterr().err
    assert "failed" not in told
    assert "stops here" not in told


def test_a_tracer_that_raises_inside_sonde_reaches_the_program(matcher: str) -> None:
    step = make_training()

    def tracer(frame: FrameType, event: str, argument: object) -> None:
        if frame.f_code.co_name == "_before_op":
            raise ProgramTimeoutError("traced")

    with watch() as seen:
        with traced(tracer), pytest.raises(ProgramTimeoutError):
            step()
        step()
        step()
    assert [report.endswith("[step-dropped]") for report in seen.reports] == [True]
    assert seen.steps


@pytest.mark.parametrize("calls", range(0, 40, 3))
def test_no_exception_is_lost_while_the_files_of_a_step_are_dropped(
    calls: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ops = 0
    left = calls

    def in_op(frame: FrameType, event: str, argument: object) -> None:
        nonlocal ops
        ops += frame.f_code.co_name == "_before_op"
        if ops == 10:
            raise ProgramTimeoutError("in an op, when the step has files")

    def in_drop(frame: FrameType, event: str, argument: object) -> None:
        nonlocal left
        if is_inside(frame, "drop_step"):
            left -= 1
            if left == -1:
                raise ProgramTimeoutError("while they are dropped")

    step = make_training()
    with observed("tensors", tmp_path):
        with traced(in_op), pytest.raises(ProgramTimeoutError):
            step()
        has_reached = False
        with traced(in_drop):
            try:
                step()
            except ProgramTimeoutError:
                has_reached = True
        assert has_reached == (left < 0)
        for _ in range(3):
            step()
    told = capfd.readouterr().err
    assert "failed" not in told
    assert "stops here" not in told
    assert not list(tmp_path.rglob("unfinished"))
    assert len(list(tmp_path.rglob("*.npy"))) > 100


def test_a_signal_handler_that_raises_while_a_failed_op_is_learned_reaches_the_program(
    tmp_path: Path,
) -> None:
    product = torch.ops.aten.mm.default

    def tracer(frame: FrameType, event: str, argument: object) -> None:
        if frame.f_code.co_name == "_before_op" and frame.f_locals["func"] is product:
            raise ProgramTimeoutError("while an op that raised is learned")

    def train() -> None:
        network, weights = nn.Linear(3, 3), torch.ones(3, 3)
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        for step, length in enumerate((3, 5, 2, 4)):  # Its ops are told by their call sites.
            x: Any = torch.ones(2, 3)
            for turn in range(length):
                is_last = (step, turn) == (3, 3)
                if is_last:
                    sys.settrace(tracer)
                other = torch.ones(4, 3) if is_last else weights
                x = network(x).mm(other)
            x.sum().backward()
            optimizer.step()

    with observed("overflow", tmp_path), traced(None), pytest.raises(ProgramTimeoutError):
        train()


@pytest.mark.parametrize("name", ["fills", "rearranges", "workspaces"])
def test_an_interruption_while_the_matcher_reads_a_call_site_reaches_the_program(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sonde.adapters.torch.eager._match")
    monkeypatch.setenv("SONDE_MATCHER", "native")

    def tracer(frame: FrameType, event: str, argument: object) -> None:
        if frame.f_code.co_name == name:
            raise ProgramTimeoutError("while an attribute is read")

    step = make_training()
    with observed("overflow", tmp_path) as capture:
        with traced(tracer), pytest.raises(ProgramTimeoutError):
            step()
        for _ in range(3):
            step()
        assert capture.adapter.is_observing
    assert "failed" not in capfd.readouterr().err


def is_inside(frame: FrameType | None, function: str) -> bool:
    while frame is not None and frame.f_code.co_name != function:
        frame = frame.f_back
    return frame is not None


@contextmanager
def traced(tracer: Callable[[FrameType, str, object], None] | None) -> Iterator[None]:
    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        yield
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("mode", MODES)
def test_ops_of_a_signal_handler_between_two_steps_belong_to_none(
    mode: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    calls = 0

    def tracer(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        if frame.f_code.co_name == "begin_step":
            calls += 1
            torch.ones(3).add_(1).sum()

    step = make_training()
    with observed(mode, tmp_path):
        for _ in range(3):
            step()
        with traced(tracer):
            step()
        step()
    assert calls > 1
    told = capfd.readouterr().err
    assert "failed" not in told
    assert "stops here" not in told


@pytest.mark.parametrize("mode", MODES)
def test_recursion_up_to_the_limit_leaves_sonde_on(
    mode: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def deeper(value: torch.Tensor) -> torch.Tensor:
        return deeper(value * 2)

    step = make_training()
    with observed(mode, tmp_path) as capture:
        for _ in range(3):
            step()
            with recursion_limit(depth() + 250), pytest.raises(RecursionError):
                deeper(torch.ones(1, requires_grad=True))
        step()
        step()
        assert capture.adapter.is_observing
    assert "failed" not in capfd.readouterr().err


@pytest.mark.parametrize("mode", MODES)
def test_recursion_that_just_fits_still_fits(mode: str, matcher: str, tmp_path: Path) -> None:
    net = nn.Linear(8, 8)

    def deeper(calls: int) -> torch.Tensor:
        return deeper(calls - 1) if calls else net(torch.ones(2, 8)).sum()

    with recursion_limit(depth() + 250):
        fitting = next(calls for calls in range(250, 0, -1) if fits(deeper, calls))
        with observed(mode, tmp_path):
            for _ in range(3):
                deeper(fitting - FRAMES_HERE).backward()
    assert fitting > 200


# Those of ``fits`` are no longer there, and the context manager's are.
FRAMES_HERE = 3


def fits(function: Callable[[int], object], calls: int) -> bool:
    try:
        function(calls)
    except RecursionError:
        return False
    return True


def depth() -> int:
    frame: FrameType | None = sys._getframe()
    count = 0
    while frame is not None:
        count, frame = count + 1, frame.f_back
    return count


@contextmanager
def recursion_limit(frames: int) -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(frames)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
