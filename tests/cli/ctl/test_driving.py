"""``sonde ctl``: a training is driven and looked at, with a simulated rank."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import pytest
from tests.cli.ctl.terminal import ctl
from tests.server import written_dumps as dumps
from tests.server.serving_in_thread import Server, serving

from sonde.cli import ctl as ctl_command
from sonde.server.dumps.run import open_dumps
from sonde.testing.fake_rank import FakeRank

LOG = "Default/network-Net/loss-Loss/log-op0"


@pytest.mark.document(228)
@pytest.mark.usefixtures("rank")
def test_a_training_is_driven_from_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = ctl(capsys, "status")
    assert (code, text.splitlines()[:2]) == (
        0,
        ["run-1  train.py --lr 0.1", "  rank 0: paused (start) step 0 at data"],
    )
    assert re.fullmatch(
        r"  rank 0: client 127\.0\.0\.1:\d+, process \d+ on \S+", text.splitlines()[2]
    )
    assert ctl(capsys, "step", "2")[1].endswith("rank 0: paused (step) step 2 at data\n")
    assert "at blocks.0.linear.weight" in ctl(capsys, "next")[1]
    assert f"at {LOG}" in ctl(capsys, "to", "log-op0")[1]
    assert ctl(capsys, "watch", "add", "tensor_overflow") == (0, "1: tensor_overflow\n")
    code, text = ctl(capsys, "continue", "--wait")
    assert (code, "paused (hit) step 5" in text) == (1, True)
    code, text = ctl(capsys, "hits")
    assert code == 1
    assert text.splitlines()[0] == (
        f"step 5 rank 0  watchpoint 1: tensor_overflow  {LOG} output.0  <- makes it"
    )
    assert text.splitlines()[1].startswith("    supported: ")
    code, text = ctl(capsys, "terminate")
    assert (code, "terminated from the debugger" in text) == (0, True)
    assert ctl(capsys, "continue") == (
        2,
        "sonde: run 'run-1' has no connected training process [run-ended]\n",
    )


@pytest.mark.usefixtures("rank")
def test_every_answer_can_be_had_as_json(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for words in (
        ["status"],
        ["watch", "add", "gradient_too_large", "abs_mean_gt=10", "--ops", "mm", "--name", "big"],
        ["watch", "list"],
        ["watch", "recommended"],
        ["watch", "remove", "1"],
        ["watch", "save", str(tmp_path / "watch.json")],
        ["watch", "load", str(tmp_path / "watch.json")],
        ["hits"],
        ["tensor", LOG, "--index", "[0, :3]"],
        ["graph", "--scope", "Default"],
        ["step"],
        ["pause"],
        ["next"],
        ["to", "mean-op0"],
        ["continue", "--no-wait"],
        ["terminate"],
    ):
        code, text = ctl(capsys, *words, "--json")
        assert code == 0, text
        json.loads(text)


@pytest.mark.document(234)
@pytest.mark.usefixtures("rank")
def test_tensors_and_graphs_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = ctl(capsys, "tensor", "log-op0", "--index", "[0, :2]")
    assert code == 0
    assert text.splitlines()[:2] == [f"{LOG} output.0 (latest step)", "float32 [32, 64]"]
    assert "  count                2048" in text
    assert text.splitlines()[-2] == "[0, 0:2]:"
    assert ctl(capsys, "graph") == (
        0,
        "data  Input\nDefault/  Default  22 ops\nGradients/  Gradients  13 ops\n",
    )


@pytest.mark.usefixtures("rank")
@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["watch", "add", "tensor_overflw"], "did you mean 'tensor_overflow'?"),
        (["watch", "add", "tensor_too_large", "max_gt"], "is not a parameter such as max_gt=10"),
        (["watch", "add", "tensor_too_large", "max_gt=many"], "is not a parameter"),
        (["watch", "add", "expression", "max > 1"], "sonde ctl watch add 'max > 1' ["),
        (["watch", "add", "expression", "max", ">", "1"], "sonde ctl watch add 'max > 1' ["),
        (["watch", "add", "expression", "expression=max > 1"], "ctl watch add 'max > 1' ["),
        (["watch", "add", "nan_count"], "in quotes: sonde ctl watch add 'nan_count > 0' ["),
        (
            ["watch", "add", "tensor_overflow", "--ops", "network-Nett/"],
            "mean 'Default/network-Net/'",
        ),
        (["watch", "add", "expression"], "ctl watch add 'nan_count > 0 or abs_max > 10' ["),
        (
            ["watch", "add", "tensor_too_large", "max_gt=nan"],
            "must be a finite number (got nan",
        ),
        (
            ["watch", "add", "tensor_too_large", "max_gt=1e999"],
            "must be a finite number (got 1e999",
        ),
        (["watch", "add", "1/0 > 1"], "divides by zero"),
        (["watch", "add", "tensor_overflow", "--ops", "nosuch"], "matches 'nosuch'"),
        (["watch", "add", "gradient_exploding", "--ops", "log-op"], "matches 'log-op'"),
        (["watch", "add", "gradient_exploding", "--ops", "tanh"], "'tanh' matches, but"),
        (["hits", "--rank", "9"], "run 'run-1' has no rank 9; its ranks are [0]"),
        (["continue", "--rank", "7"], "run 'run-1' has no rank 7; its ranks are [0]"),
        (["to", "no-such-scope/"], "no scope matches 'no-such-scope/'"),
        (["watch", "load", "/nowhere.json"], "/nowhere.json cannot be read"),
        (["watch", "remove", "7"], "there is no watchpoint 7"),
        (["to", "nothing"], "no op matches 'nothing'"),
        (["tensor", "tanh-op0"], "4 ops match 'tanh-op0'"),
        (["tensor", "log-op0", "--index", "[9999]"], "outside of a dimension"),
        (["tensor", "log-op0", "--slot", "-1"], "not in the range"),
        (["--server", "http://[", "status"], "'http://[': not an address such as"),
        (["--server", "", "status"], "'': not an address such as"),
        (["--server", "here:port", "status"], "'here:port': not an address such as"),
        (["--run", "other", "hits"], "no run 'other'"),
        (["--run", "other", "status"], "no run 'other'"),
        (["graph", "--scope", "Nowhere"], "no scope 'Nowhere'"),
        (["step", "0"], "not in the range"),
        (["step", "--timeout", "nan"], "--timeout must be 0 or more seconds (got nan)"),
        (["step", "--timeout", "-1"], "--timeout must be 0 or more seconds (got -1)"),
    ],
)
def test_mistakes_are_reported_in_a_line(
    words: list[str], part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = ctl(capsys, *words)
    assert code == 2
    assert part in text
    assert len(text.splitlines()) == 1


@pytest.mark.usefixtures("rank")
def test_parts_of_a_scope_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["watch", "add", "tensor_overflow", "--ops", "Default/network-Net/", "--ops"]
    code, text = ctl(capsys, *words, "!Default/network-Net/loss-Loss/")
    assert code == 0
    where = "Default/network-Net/, !Default/network-Net/loss-Loss/"
    assert text.splitlines() == [f"1: tensor_overflow on {where}"]
    code, text = ctl(capsys, *words, "!nosuch")
    assert code == 2
    assert "seen so far matches '!nosuch'" in text


def test_a_run_must_be_chosen_among_several(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ctl(capsys, "status") == (0, "no training is connected yet\n")
    assert "no training is connected" in ctl(capsys, "hits")[1]
    ranks = [FakeRank(server.rank_port, run=run).start() for run in ("one", "two")]
    server.wait_for("/runs", lambda found: all(run["controls"] for run in found["runs"]))
    code, text = ctl(capsys, "pause")
    assert (code, "several runs are connected: one, two" in text) == (2, True)
    assert ctl(capsys, "--run", "two", "step")[0] == 0
    for rank in ranks:
        rank.close()


def test_a_dump_is_checked_from_the_terminal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = dumps.write_dump(tmp_path / "d", {0: dumps.outputs(dumps.finite(0))})
    with serving(sources=lambda board: open_dumps([path], board)) as found:
        server = ["--server", found.page]
        assert "(dump)" in ctl(capsys, *server, "status")[1]
        ctl(capsys, *server, "watch", "add", "tensor_too_large", "max_gt=6.5")
        assert ctl(capsys, *server, "recheck") == (1, "7 tensors checked in total, 1 hit\n")
        assert ctl(capsys, *server, "hits")[0] == 1
        assert "not a training that can be controlled" in ctl(capsys, *server, "step")[1]


@pytest.mark.usefixtures("rank")
def test_the_speed_without_sonde_is_measured_on_request(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ctl(capsys, "speed") == (0, "rank 0: not known before the first step has ended\n")
    assert ctl(capsys, "step", "2")[0] == 0
    assert ctl(capsys, "speed") == (
        0,
        "rank 0: 10.0 ms a step with Sonde; without Sonde not known\n",
    )
    code, text = ctl(capsys, "speed", "--measure")
    assert code == 0
    assert "one of the coming steps will run unobserved to measure the speed" in text
    assert ctl(capsys, "step")[0] == 0
    assert ctl(capsys, "speed") == (0, "rank 0: 10.0 ms a step with Sonde, 8.00 ms without\n")
    answer = json.loads(ctl(capsys, "speed", "--json")[1])
    assert answer["ranks"][0]["is_measuring"] is False


def test_a_measurement_of_a_running_training_is_awaited(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    rank = FakeRank(server.rank_port, steps=10**6, step_seconds=0.01).start()
    server.control("run-1", "continue")
    assert ctl(capsys, "speed", "--measure")[1].endswith(" 8.00 ms without\n")
    rank.close()


def test_every_command_is_in_the_docs() -> None:
    page = (Path(__file__).parents[3] / "docs" / "debugger.md").read_text()
    section = page.partition("## From the terminal")[2].partition("\n## ")[0]
    words = set(re.findall(r"[a-z-]+", " ".join(re.findall(r"`([^`]+)`", section))))
    for name, command in ctl_command.ctl.commands.items():
        assert name in words, name
        inner = command.commands if isinstance(command, click.Group) else {name: command}
        for each, made in inner.items():
            assert each in words, each
            for option in made.params:
                for spelled in option.opts if isinstance(option, click.Option) else ():
                    assert spelled in words or spelled in section, (each, spelled)
