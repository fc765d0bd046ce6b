"""``sonde ctl watch`` and ``sonde ctl hits``: watchpoints and what they hit."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from tests.cli.ctl.terminal import ctl
from tests.server.serving_in_thread import Server
from tests.server.test_hit_store import hit

from sonde.server import hit_store
from sonde.testing.fake_rank import RankSocket
from sonde.testing.sample_graph import sample_graph
from sonde.testing.sample_values import SAMPLE_TOKEN, sample_metadata
from sonde.wire.rank import (
    PROTOCOL,
    GraphPart,
    Hello,
    Hits,
    Status,
    Welcome,
)
from sonde.wire.shapes import Verdict


@pytest.mark.usefixtures("rank")
def test_watchpoints_are_saved_and_loaded(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    ctl(
        capsys, "watch", "add", "abs_max > 10 * prev.abs_max", "--ops", "tanh", "--break-after", "3"
    )
    file = str(tmp_path / "watch.json")
    assert ctl(capsys, "watch", "save", file) == (0, f"saved to {file}\n")
    assert ctl(capsys, "watch", "remove", "1") == (0, "removed 1\n")
    assert ctl(capsys, "watch", "list") == (0, "no watchpoints\n")
    expected = "2: abs_max > 10 * prev.abs_max on tanh\n"
    assert ctl(capsys, "watch", "load", file) == (0, expected)
    assert json.loads(Path(file).read_text())["watchpoints"][0]["break_after"] == 3
    assert json.loads(ctl(capsys, "watch", "save", "-")[1])["version"] == 1


@pytest.mark.usefixtures("rank")
@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b"[]",
        b'{"a": 1}',
        b'{"watchpoints": [{"id": 1}]}',
        b"NaN",
    ],
)
def test_a_file_that_holds_no_watchpoints_is_named(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "points.json"
    file.write_bytes(content)
    code, text = ctl(capsys, "watch", "load", str(file))
    assert code == 2
    assert text.startswith(f"sonde: {file} is not a watchpoint file: ")
    assert len(text.splitlines()) == 1


@pytest.mark.usefixtures("rank")
def test_a_check_of_available_values_reports_the_missing_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, text = ctl(capsys, "recheck")
    assert (code, text) == (2, "sonde: there are no watchpoints to check [no-such-watchpoint]\n")
    ctl(capsys, "watch", "add", "tensor_overflow")
    code, text = ctl(capsys, "recheck")
    first, note = text.splitlines()
    assert (code, first) == (0, "1 tensor checked in total, 0 hits")
    assert "were not saved (data, blocks.0.linear" in note


@pytest.mark.usefixtures("rank")
def test_a_pattern_without_a_match_is_accepted_with_force(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, text = ctl(capsys, "watch", "add", "tensor_overflow", "--ops", "nosuch", "--force")
    assert code == 0
    assert text.splitlines() == [
        "1: tensor_overflow on nosuch",
        "sonde: no op, parameter or gradient seen so far matches 'nosuch'; the op types are "
        "addmm, tanh, add, log, mean, ones_like, ...",
    ]
    code, text = ctl(capsys, "watch", "add", "tensor_overflow", "--ops", "x" * 5000, "--force")
    assert code == 0
    assert len(text) < 1000


def test_before_the_first_step_a_pattern_is_accepted_with_a_warning(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    rank = RankSocket("127.0.0.1", server.rank_port)
    rank.send(Hello(PROTOCOL, SAMPLE_TOKEN, "young", sample_metadata(), False))
    assert isinstance(rank.receive(), Welcome)
    code, text = ctl(capsys, "watch", "add", "tensor_overflow", "--ops", "relu")
    assert (code, text.splitlines()[0]) == (0, "1: tensor_overflow on relu")
    assert "not all ops are known before the first step" in text
    assert ctl(capsys, "watch", "add", "tensor_overflow", "--ops", "Blok")[0] == 0
    assert "did you mean" not in ctl(capsys, "watch", "list")[1]

    nodes = sample_graph()
    rank.send(GraphPart(0, "Net", 0, nodes, len(nodes)))
    rank.send(Status("paused", 1, 0, "data", 0, "step", "", 1))
    server.wait_for("/runs", lambda found: found["runs"][0]["ranks"][0]["state"] == "paused")
    no_match = "no op, parameter or gradient seen so far matches"
    for words in (["step", "--no-wait"], ["continue", "--no-wait"], ["status"], ["watch", "list"]):
        code, text = ctl(capsys, *words)
        assert code == 0
        lines = [line.strip() for line in text.splitlines()]
        assert f"watchpoint 2: {no_match} 'Blok'; did you mean 'Block'? [no-such-op]" in lines
    rank.close()


@pytest.mark.document(
    246,
    says="The triggered list shows which watch point was hit",
    how="every entry of `sonde ctl hits` names its watchpoint, as the page does",
)
def test_each_hit_names_its_watchpoint(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    rank = RankSocket("127.0.0.1", server.rank_port)
    rank.send(Hello(PROTOCOL, SAMPLE_TOKEN, "two", sample_metadata(), False))
    server.wait_for("/runs", lambda answer: len(answer["runs"]) == 1)
    for name in ("", "big"):
        body = {"name": name, "conditions": [{"id": "tensor_overflow"}]}
        server.post("/runs/two/watchpoints", body)
    same = hit(0)
    rank.send(Hits((same, msgspec.structs.replace(same, number=1, watchpoint=2))))
    server.wait_for("/runs/two/hits", lambda found: found["total"] == 2)
    first, second = (
        line for line in ctl(capsys, "hits")[1].splitlines() if line.startswith("step")
    )
    assert "  watchpoint 1: tensor_overflow  " in first
    assert "  watchpoint 2 'big': tensor_overflow  " in second
    rank.close()


@pytest.mark.document(257)
@pytest.mark.usefixtures("rank")
def test_what_cannot_act_on_a_training_that_has_ended_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ctl(capsys, "terminate")[0] == 0
    for words in (
        ["watch", "add", "tensor_overflow"],
        ["watch", "recommended"],
        ["continue"],
        ["step"],
        ["to", "log-op0"],
        ["speed", "--measure"],
    ):
        code, text = ctl(capsys, *words)
        assert (code, "[run-ended]" in text, len(text.splitlines())) == (2, True, 1), words


def test_hits_that_are_not_printed_are_counted(
    server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hit_store, "MOST_HITS", 8)
    rank = RankSocket("127.0.0.1", server.rank_port)
    rank.send(Hello(PROTOCOL, SAMPLE_TOKEN, "many", sample_metadata(), False))
    verdicts: list[Verdict] = ["undecided"] * 9 + ["hit"]
    for number, verdict in enumerate(verdicts):
        rank.send(Hits((hit(number, step=number, verdict=verdict),)))
    server.wait_for("/runs/many/hits", lambda found: found["total"] + found["dropped"] == 10)
    code, text = ctl(capsys, "hits", "--limit", "1")
    assert code == 1  # Also if the only one on the page is undecided.
    start = "step 0 rank 0  undecided: watchpoint 1 (removed): tensor_overflow"
    assert text.splitlines()[0].startswith(start)
    assert text.splitlines()[1:] == [
        "    supported",
        "and 6 more",
        "3 other hits, neither the first nor the newest, were not kept",
    ]
    assert ctl(capsys, "hits", "--step", "3")[0] == 0
    rank.close()
