"""What a dump says at its end: what it wrote, or why it wrote nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.adapters.torch.dumping import config
from torch import nn

from sonde.adapters.torch import attach as attaching
from sonde.adapters.torch.attach import attach
from sonde.dump.reader import Dump


@pytest.fixture(autouse=True)
def _no_switches() -> Iterator[None]:
    attaching._SWITCHES.clear()
    yield
    attaching._SWITCHES.clear()


def train(steps: int = 2, *, bad: int | None = None, after: str = "") -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(steps):
        loss = net(torch.rand(2, 3)).sum()
        if step == bad:
            loss = loss * torch.log(torch.tensor(-1.0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if after == "item":
        print(loss.item())


def failing() -> None:
    train(1)
    torch.mm(torch.ones(2, 3), torch.ones(2, 3))


Said = Callable[..., list[str]]


@pytest.fixture
def said(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Said:
    """The lines that a dump of ``training`` to ``tmp_path / "out"`` prints."""

    def run(training: Callable[[], None] = train, **options: Any) -> list[str]:
        made = config(tmp_path / "out", **options)
        try:
            with attach(made, starts_at_once=False):
                training()
        except RuntimeError:
            assert training is failing
        return capfd.readouterr().err.splitlines()

    return run


def on_disk(rank: Path) -> tuple[int, int]:
    """Files and bytes of a dump, without its metadata; hard links have bytes once."""
    seen: dict[int, int] = {}
    names = 0
    for path in rank.rglob("*"):
        if path.is_file() and ".dump_metadata" not in path.parts and path.parent != rank:
            names += 1
            seen[path.stat().st_ino] = path.stat().st_size
    return names, sum(seen.values())


MODES: dict[str, dict[str, Any]] = {
    "tensors": {},
    "statistics": {"saved_data": "statistic"},
    "both": {"saved_data": "full"},
    "one step": {"steps": "1"},
    "some ops": {"ops": ("addmm",)},
    "graphs": {"saved_data": "graph"},
    "arguments": {"save_kernel_args": True, "asynchronous": False},
}


@pytest.mark.parametrize("mode", MODES)
def test_a_dump_says_what_it_wrote(mode: str, said: Said, tmp_path: Path) -> None:
    (line,) = said(**MODES[mode])
    rank = tmp_path / "out" / "rank_0"
    match = re.fullmatch(
        r"sonde: (dumped|wrote the graphs of) steps? (\S+): (\d+) ops?, ([\d,]+) files?, "
        r"([\d.]+ \w+) in (.*)",
        line,
    )
    assert match is not None, line
    files, nbytes = on_disk(rank)
    assert match[1] == ("wrote the graphs of" if mode == "graphs" else "dumped")
    assert match[2] == ("1" if mode == "one step" else "0-1")
    assert int(match[4].replace(",", "")) == files
    size, unit = match[5].split()
    assert float(size) * {"B": 1, "kB": 1e3, "MB": 1e6}[unit] == pytest.approx(nbytes, rel=0.01)
    assert match[6] == str(rank)
    if mode in ("tensors", "both", "arguments", "one step", "some ops"):
        ops = {
            record.key.op
            for record in Dump(tmp_path / "out").tensors()
            if record.op_type not in ("Parameter", "Input", "Constant")
        }
        assert int(match[3]) == len(ops)


@pytest.mark.document(
    123,
    says="an `iteration` that is never reached",
    how="the line at the end of the run says that nothing was dumped and which steps the run had",
)
@pytest.mark.parametrize(
    "options", [{}, {"saved_data": "statistic"}, {"saved_data": "graph"}, {"ops": ("addmm",)}]
)
def test_steps_that_were_never_reached_are_said(said: Said, options: dict[str, Any]) -> None:
    assert said(steps="100-120", **options) == [
        "sonde: nothing was dumped: none of the selected steps was reached (100-120; the run had "
        "steps 0-1) [nothing-dumped]"
    ]


@pytest.mark.document(123)
def test_overflow_dumps_say_it_in_their_verdict(said: Said) -> None:
    assert said(steps="7", debug_mode="overflow") == [
        "sonde: nothing is known about NaN and Inf: none of the selected steps was reached (7; "
        "the run had steps 0-1) [nothing-observed]"
    ]


@pytest.mark.document(
    134,
    says="`support_device` without this rank",
    how="nothing is dumped, and the line at the end says that this rank is not in the list",
)
@pytest.mark.parametrize("mode", ["off", "overflow", "exception"])
def test_a_rank_that_does_not_dump_says_so(said: Said, tmp_path: Path, mode: str) -> None:
    from dataclasses import replace

    from sonde.core.selection import Selection

    selection = replace(Selection(), ranks=frozenset({1, 2}))
    assert said(selection=selection, debug_mode=mode) == [
        "sonde: nothing was dumped: rank 0 is not in support_device [1, 2] [nothing-dumped]"
    ]
    assert not (tmp_path / "out").exists()


def test_patterns_that_select_nothing_are_said_after_the_step_and_at_the_end(said: Said) -> None:
    assert said(ops=("Lineer", "Conv2D")) == [
        "sonde: 'Lineer' matched no op of step 0; did you mean 'Linear'? [op-unmatched]",
        "sonde: 'Conv2D' matched no op of step 0; the module classes are Sequential, Linear, "
        "ReLU, SGD [op-unmatched]",
        "sonde: nothing was dumped: no op of the observed steps is selected by 'Lineer', 'Conv2D' "
        "[nothing-dumped]",
    ]


def test_a_pattern_that_matches_nothing_is_said_before_the_second_step(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with attach(config(tmp_path, ops=("relu", "nosuch")), starts_at_once=False):
        train(1)
        assert "'nosuch' matched no op of step 0" in capfd.readouterr().err


def test_set_dump_that_was_not_called_or_met_nothing_is_said(said: Said) -> None:
    assert said(dump_mode="set_dump") == [
        "sonde: nothing was dumped: dump_mode is 2, and the program did not call sonde.set_dump "
        "[nothing-dumped]"
    ]
    attaching.set_dump("Conv2d")
    unmatched, nothing = said(dump_mode="set_dump")
    assert unmatched.startswith("sonde: 'Conv2d' matched no op of step 0; ")
    assert nothing == (
        "sonde: nothing was dumped: no op that sonde.set_dump switched on ran in the observed "
        "steps [nothing-dumped]"
    )


def test_set_dump_of_the_first_step_is_said_when_that_step_ends(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with attach(config(tmp_path, dump_mode="set_dump"), starts_at_once=False):
        attaching.set_dump("Liner")
        attaching.set_dump("ReLU")
        train(1)
        assert [line for line in capfd.readouterr().err.splitlines() if "unmatched" in line] == [
            "sonde: 'Liner' matched no op of step 0; did you mean 'Linear'? [op-unmatched]"
        ]


def test_parameters_that_were_selected_are_counted(said: Said) -> None:
    assert said(ops=("0.weight",))[0].startswith("sonde: dumped steps 0-1: 1 parameter, ")
    assert said(ops=("addmm", "weight"))[-1].startswith(
        "sonde: dumped steps 0-1: 2 ops, 2 parameters, "
    )
    attaching.set_dump("bias")
    assert said(dump_mode="set_dump")[-1].startswith("sonde: dumped steps 0-1: 2 parameters, ")


def test_where_gradients_are_is_said(said: Said) -> None:
    [unmatched, *_] = said(ops=("0.weight.grad",))
    assert unmatched == (
        "sonde: '0.weight.grad' matched no op of step 0; a gradient is an output of the op that "
        "computes it, in the backward pass: 'Gradients/' selects all of them, "
        "'Gradients/Default/network-Sequential/0-Linear/' those of 0 [op-unmatched]"
    )


def test_a_program_without_a_step_is_said(said: Said) -> None:
    assert said(lambda: None) == [
        "sonde: nothing was dumped: no op of a training step ran in the observed thread "
        "[nothing-dumped]"
    ]


def test_an_overflow_dump_ends_with_its_verdict(said: Said, tmp_path: Path) -> None:
    written, *verdict = said(lambda: train(bad=0), debug_mode="overflow")
    files, _ = on_disk(tmp_path / "out" / "rank_0")
    assert re.match(rf"sonde: dumped steps 0-1: \d+ ops, {files} files, ", written)
    assert verdict[0].startswith("sonde: log made NaN in step 0, forward, at test_dump_end.py:")
    assert verdict[1].startswith("sonde: ops with such values: ")
    assert said(debug_mode="overflow")[-1:] == [
        "sonde: every value of the observed steps was finite"
    ]


def test_an_exception_dump_says_what_it_wrote_or_that_no_op_raised(said: Said) -> None:
    raised, written = said(failing, debug_mode="exception")
    assert "raised RuntimeError" in raised
    assert written.startswith("sonde: dumped step 1: 1 op, ")
    assert said(debug_mode="exception")[-1:] == ["sonde: no op raised an exception"]


@pytest.mark.document(
    114,
    says="`op_debug_mode` 3 and the steps of a run",
    how="a step is an optimizer's update in all modes; a lone `loss.item()` is none",
)
@pytest.mark.parametrize("mode", ["off", "overflow"])
def test_a_lone_item_after_the_last_step_is_not_a_step(
    said: Said, tmp_path: Path, mode: str
) -> None:
    lines = said(lambda: train(bad=1, after="item"), debug_mode=mode)
    assert {each.step for each in Dump(tmp_path / "out").step_dirs()} == (
        {1} if mode == "overflow" else {0, 1}
    )
    lone = [line for line in lines if "passed them on" in line]
    without = said(lambda: train(bad=1), debug_mode=mode)
    assert lone == [line for line in without if "passed them on" in line]


@pytest.mark.document(
    172,
    says="`MS_DEV_SAVE_GRAPHS` to save the graph without a dump",
    how='`sonde run --graph`, `saved_data` "graph", or `MS_DEV_SAVE_GRAPHS=1 sonde run`',
)
def test_graphs_are_written_without_values(said: Said, tmp_path: Path) -> None:
    said(saved_data="graph")
    rank = tmp_path / "out" / "rank_0"
    assert not list(rank.rglob("*.npy"))
    assert not list(rank.rglob("statistic.csv"))
    dump = Dump(tmp_path / "out")
    assert dump.graphs()
    for graph in dump.graphs():
        assert any(op.type == "addmm" for op in graph.ops)
        assert dump.execution_order(graph.id) == tuple(op.name for op in graph.ops)
    assert list(rank.glob("graphs/*.ir"))
    assert dump.steps() == ()


@pytest.mark.document(
    171,
    says="`MINDSPORE_DUMP_IGNORE_USELESS_OUTPUT`",
    how="outputs that an op returns empty are left out; with 0 they are dumped",
)
@pytest.mark.parametrize("saved", ["tensor", "statistic", "full"])
def test_outputs_that_an_op_returns_empty_are_left_out_unless_wanted(
    said: Said, tmp_path: Path, saved: str
) -> None:
    def train_in_eval_mode() -> None:
        net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).eval()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            net(torch.rand(2, 3)).sum().backward()
            optimizer.step()

    def outputs() -> set[int]:
        return {
            record.key.slot
            for record in Dump(tmp_path / "out").tensors(op="native_batch_norm", io="output")
            if record.key.op.startswith("Default")
        }

    said(train_in_eval_mode, saved_data=saved)
    assert outputs() == {0, 3, 4}  # The last two are the running statistics.
    said(train_in_eval_mode, saved_data=saved, keeps_useless_outputs=True)
    assert outputs() == {0, 1, 2, 3, 4}
