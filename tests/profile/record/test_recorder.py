"""One real training after another, each under a recorder."""

import statistics
import time
import weakref
from collections.abc import Callable, Iterator

import pytest
import torch
from tests.profile.record.recording import PLACES, recording
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data import DataLoader, TensorDataset

from sonde.core.errors import SondeError
from sonde.profile.analyse.overview import outliers
from sonde.profile.analyse.split import PARTS
from sonde.profile.analysis import Subject, analyse
from sonde.profile.record.recorder import WindowDone

SUBJECT = Subject(("train.py",), 0, 1)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """With two, an op of some microseconds waits for a core that another program has."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def training(sleep: float = 0.0) -> Callable[[], float]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(32, 32), nn.Dropout(0.5), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(net.parameters(), 0.01)
    x = torch.randn(16, 32)

    def step() -> float:
        optimizer.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        time.sleep(sleep)
        return float(loss.detach())

    return step


def test_profiling_does_not_change_the_training_by_a_bit() -> None:
    step = training()
    bare = [step() for _ in range(12)]
    step = training()
    with recording("3:8"):
        assert [step() for _ in range(12)] == bare


def test_the_parts_of_every_step_and_the_modules_add_up_to_it() -> None:
    step = training(sleep=0.01)
    with recording("2:8") as recorder:
        for _ in range(9):
            step()
    profile, _ = analyse(recorder, SUBJECT, PLACES, print)
    timed = [each for each in profile.steps if each.parts is not None]
    assert [each.number for each in timed] == [3, 4, 5, 6, 7]
    for each in timed:
        assert each.parts is not None
        assert sum(each.parts.values()) == pytest.approx(each.seconds, rel=1e-6)
    lengths = [each.seconds for each in timed]
    far = outliers(lengths)
    mean = statistics.mean(each for index, each in enumerate(lengths) if index not in far)
    assert sum(profile.summary.parts.values()) == pytest.approx(mean, rel=1e-6)
    tree = profile.modules
    assert tree.forward + tree.backward == pytest.approx(mean, rel=1e-3)


def test_the_times_of_steps_add_up_to_no_more_than_the_wall_clock() -> None:
    step = training(sleep=0.01)
    clock: list[float] = []
    hook = register_optimizer_step_post_hook(lambda *_: clock.append(time.perf_counter()))
    with recording("2:12") as recorder:
        for _ in range(13):
            step()
    hook.remove()
    profile, _ = analyse(recorder, SUBJECT, PLACES, print)
    timed = [each for each in profile.steps if each.parts is not None]
    first, last = timed[0].number, timed[-1].number
    assert last - first + 1 == len(timed) >= 8
    assert min(each.seconds for each in timed) >= 0.01, "each step sleeps so long"
    # The hook is called a little before or after the recorder's, so a step more on either side.
    assert sum(each.seconds for each in timed) <= clock[last + 1] - clock[first - 2]


def test_ops_modules_and_lines_of_the_program_are_named() -> None:
    step = training()
    with recording("2:6") as recorder:
        for _ in range(7):
            step()
    profile, _ = analyse(recorder, SUBJECT, PLACES, print)
    names = {(op.op, op.phase) for op in profile.ops}
    assert {("addmm", "forward"), ("mm", "backward"), ("sqrt", "optimizer")} <= names
    addmm = next(op for op in profile.ops if op.op == "addmm")
    assert addmm.place is not None
    assert addmm.place.code == "loss = net(x).pow(2).mean()"
    assert addmm.module.startswith("Default/network-Sequential/")
    assert "f32[16,32]" in addmm.shapes
    network = next(each for each in profile.modules.children if each.kind == "Sequential")
    assert {child.kind for child in network.children} == {"Linear", "Dropout", "ReLU"}
    assert any(each.place.code == "optimizer.step()" for each in profile.lines)
    assert profile.memory is not None
    assert profile.memory.peak > 0


def test_sleeping_in_the_loop_is_rest_at_its_line() -> None:
    step = training(sleep=0.02)
    with recording("2:6") as recorder:
        for _ in range(7):
            step()
    profile, _ = analyse(recorder, SUBJECT, PLACES, print)
    assert profile.summary.parts["rest"] > 0.019
    assert profile.findings[0].rule == "python-time"
    assert profile.findings[0].place is not None
    assert profile.findings[0].place.code == "time.sleep(sleep)"


def test_waiting_for_a_loader_is_data() -> None:
    torch.manual_seed(0)
    net = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), 0.01)

    def slow_collate(samples: list[tuple[torch.Tensor, ...]]) -> torch.Tensor:
        time.sleep(0.01)
        return torch.stack([each[0] for each in samples])

    with recording("2:6") as recorder:
        loader = DataLoader(
            TensorDataset(torch.randn(64, 4)), batch_size=8, collate_fn=slow_collate
        )
        for x in loader:
            optimizer.zero_grad()
            net(x).pow(2).mean().backward()
            optimizer.step()
    profile, _ = analyse(recorder, SUBJECT, PLACES, print)
    assert profile.summary.parts["data"] > 0.0099
    assert profile.loaders[0].batch_size == 8
    assert profile.loaders[0].place is not None
    assert profile.loaders[0].place.code.startswith("loader = DataLoader(")
    assert profile.findings[0].rule == "data-wait"
    assert profile.findings[0].place is not None
    assert profile.findings[0].place.code == "time.sleep(0.01)"


@pytest.mark.document(
    213,
    says="step jitter and an empty data queue: data processing is too slow",
    how="`sonde profile`: `data-wait`, `too-few-workers`, `slow-dataset`, with the slow line and "
    "the measured gain of more workers",
)
@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_written_in_the_for_line_is_seen(workers: int) -> None:
    net = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    data = TensorDataset(torch.randn(96, 4))

    def slow_collate(samples: list[tuple[torch.Tensor, ...]]) -> torch.Tensor:
        time.sleep(0.01)
        return torch.stack([each[0] for each in samples])

    with recording("2:10") as recorder:
        for x in DataLoader(data, 8, collate_fn=slow_collate, num_workers=workers):
            optimizer.zero_grad()
            net(x).pow(2).mean().backward()
            optimizer.step()
    profile, _ = analyse(recorder, SUBJECT, PLACES, print)
    assert [(each.workers, each.batch_size) for each in profile.loaders] == [(workers, 8)]
    assert profile.loaders[0].place is not None
    assert profile.loaders[0].place.code.startswith("for x in DataLoader(")
    data_rules = {"data-wait", "too-few-workers", "slow-dataset"}
    assert profile.findings[0].rule in data_rules, profile.findings


def test_a_loader_of_the_program_lives_no_longer_than_without_the_profile() -> None:
    data = TensorDataset(torch.randn(8, 4))
    with recording("5:6"):
        made = DataLoader(data, 4, num_workers=1, persistent_workers=True)
        iterator = iter(made)
        next(iterator)
        workers, loader = list(iterator._workers), weakref.ref(made)  # type: ignore[attr-defined]
        del made
        assert loader() is None
        del iterator
        for worker in workers:
            worker.join(30)
        assert [worker.exitcode for worker in workers] == [0]


def test_a_window_can_end_the_program() -> None:
    step = training()
    with recording("2:4", stops=True) as recorder:
        for _ in range(3):
            step()
        with pytest.raises(WindowDone):
            step()
    assert len(recorder.ends) == 4
    assert [each.number for each in recorder.session.steps] == [3]  # type: ignore[union-attr]


def test_a_single_step_is_named_and_timed() -> None:
    step = training()
    with recording("3:4") as recorder:
        for _ in range(6):
            step()
    profile, _ = analyse(recorder, SUBJECT, PLACES, print)
    assert [each.number for each in profile.steps if each.kind == "timed"] == [3]
    assert any(op.op == "addmm" for op in profile.ops)


@pytest.mark.document(
    214,
    says="distinguish graph build from network execution",
    how="step 0 is never timed; compilations are listed apart",
)
def test_step_0_is_never_timed() -> None:
    step = training()
    with recording("0:3") as recorder:
        for _ in range(5):
            step()
    profile, _ = analyse(recorder, SUBJECT, PLACES, print)
    assert [each.kind for each in profile.steps] == ["named", "timed", "timed", "bare", "bare"]


@pytest.mark.parametrize(
    ("ran", "why"), [(0, "no optimizer's step"), (3, "made 3 steps; try --steps 1:3")]
)
def test_too_few_steps_are_reported(ran: int, why: str) -> None:
    step = training()
    with recording("5:15") as recorder:
        for _ in range(ran):
            step()
    with pytest.raises(SondeError, match=why):
        analyse(recorder, SUBJECT, PLACES, print)


def test_a_profiler_of_the_program_itself_is_not_disturbed() -> None:
    step = training()
    said: list[str] = []
    with recording("2:6", said=said) as recorder:
        step()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as theirs:
            losses = [step() for _ in range(6)]
    assert len(losses) == 6
    assert any(each.name == "aten::addmm" for each in theirs.events())
    assert "[profile-busy]" in said[0]
    assert recorder.session is None


def test_a_profiler_that_the_program_starts_in_the_window_ends_it() -> None:
    step = training()
    said: list[str] = []
    with recording("2:9", said=said) as recorder:
        for _ in range(6):
            step()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as theirs:
            for _ in range(6):
                step()
    assert any(each.name == "aten::addmm" for each in theirs.events())
    assert "[profile-busy]" in said[0]
    profile, _ = analyse(recorder, SUBJECT, PLACES, print)
    assert [each.number for each in profile.steps if each.kind == "timed"] == [3, 4, 5]


def test_nothing_is_left_behind() -> None:
    before = (
        DataLoader.__init__,
        DataLoader.__iter__,
        torch.optim.Optimizer.__init__,
        torch.autograd._engine_run_backward,
        dict(torch.nn.modules.module._global_forward_pre_hooks),
    )
    step = training()
    with recording("2:5"):
        for _ in range(6):
            step()
    assert before == (
        DataLoader.__init__,
        DataLoader.__iter__,
        torch.optim.Optimizer.__init__,
        torch.autograd._engine_run_backward,
        dict(torch.nn.modules.module._global_forward_pre_hooks),
    )


def test_every_part_is_a_part() -> None:
    assert PARTS == ("data", "forward", "backward", "optimizer", "collectives", "rest")
