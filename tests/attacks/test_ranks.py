"""A rank that has the token tries to harm other ranks, the server or its user."""

import json
import resource
from pathlib import Path
from urllib.parse import quote

import msgspec
import numpy as np
import pytest
from tests.server.rank_conversation import RankConversation
from tests.server.serving_in_thread import Server, serving

from sonde.core.statistics import ROW_COLUMNS
from sonde.server.live import history, rank_messages
from sonde.testing.fake_rank import FakeRank, RankSocket
from sonde.testing.sample_graph import sample_graph
from sonde.testing.sample_values import SAMPLE_TOKEN, sample_metadata
from sonde.wire.rank import (
    PROTOCOL,
    GraphPart,
    Hello,
    OpStatistics,
    ParameterNames,
    ParameterNorms,
    Refused,
    Status,
    Welcome,
)
from sonde.wire.shapes import SourceLine


@pytest.mark.parametrize("resumes", [False, True])
@pytest.mark.parametrize("secret", ["", "guessed"])
def test_a_connected_rank_cannot_be_pushed_out(server: Server, resumes: bool, secret: str) -> None:
    with RankConversation(server, run="victim") as victim:
        impostor = RankSocket("127.0.0.1", server.rank_port)
        known = server.get("/runs/victim")["ranks"][0]["metadata"]
        assert (known["host"], known["pid"]) == (sample_metadata().host, sample_metadata().pid)
        hello = Hello(PROTOCOL, SAMPLE_TOKEN, "victim", sample_metadata(), resumes, secret=secret)
        impostor.send(hello)
        answer = impostor.receive()
        assert isinstance(answer, Refused)
        assert "is connected already" in answer.reason
        impostor.close()
        victim.send(Status("running", 7, None, None, None, None, "", 0))
        server.wait_for("/runs/victim", lambda run: run["ranks"][0]["step"] == 7)


def test_a_lost_rank_is_resumed_only_with_its_secret(server: Server) -> None:
    with (first := RankConversation(server, run="victim")) as victim:
        victim.send(GraphPart(0, "net", 0, tuple(sample_graph(1)), None))
        server.wait_for("/runs/victim", lambda run: bool(run["ranks"][0]["graphs"]))
    assert isinstance(first.welcome, Welcome)
    server.wait_for("/runs/victim", lambda run: run["ranks"][0]["state"] == "lost")
    with RankConversation(server, run="victim", secret=first.welcome.secret, resumes=True):
        assert server.get("/runs/victim")["ranks"][0]["graphs"]
    server.wait_for("/runs/victim", lambda run: run["ranks"][0]["state"] == "lost")
    with RankConversation(server, run="victim", resumes=True):
        # Another process: it gets nothing of what the first one sent.
        assert server.get("/runs/victim")["ranks"][0]["graphs"] == []


def test_no_answer_contains_a_secret(server: Server) -> None:
    with (conversation := RankConversation(server, run="victim")):
        assert isinstance(conversation.welcome, Welcome)
        for path in ("/runs", "/runs/victim"):
            text = json.dumps(server.get(path))
            assert conversation.welcome.secret not in text
            assert server.token not in text


@pytest.mark.parametrize("code", ["", "   ", ")", "import", "key = 'guessed and wrong'"])
def test_a_file_is_not_read_for_a_rank_that_does_not_know_it(
    server: Server, tmp_path: Path, code: str
) -> None:
    secret = tmp_path / "secret.py"
    secret.write_text("import os\n\npassword = 'hunter2'\n)\n")
    secret.chmod(0o600)
    lines = {"import": 1, "": 2, "   ": 2, ")": 4}
    line = SourceLine(str(secret), lines.get(code, 3), "f", code)
    node = msgspec.structs.replace(sample_graph(1)[0], sources=(line,))
    with RankConversation(server, run="spy") as spy:
        spy.send(GraphPart(0, "net", 0, (node,), 1))
        server.wait_for("/runs/spy", lambda run: bool(run["ranks"][0]["graphs"]))
        for asked in range(1, 5):
            query = f"line={asked}&around=500&file={quote(str(secret))}"
            _, found = server.ask("GET", f"/runs/spy/code?{query}")
            assert "hunter2" not in json.dumps(found)


def test_a_file_that_the_run_knows_is_shown(server: Server, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torch\nloss = model(batch)\n")
    line = SourceLine(str(script), 2, "f", "loss = model(batch)")
    node = msgspec.structs.replace(sample_graph(1)[0], sources=(line,))
    with RankConversation(server, run="own") as own:
        own.send(GraphPart(0, "net", 0, (node,), 1))
        server.wait_for("/runs/own", lambda run: bool(run["ranks"][0]["graphs"]))
        shown = server.get(f"/runs/own/code?line=2&file={quote(str(script))}")
        assert shown["lines"] == ["import torch", "loss = model(batch)"]


def test_the_bytes_of_graphs_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_messages, "MOST_NODE_BYTES", 1 << 20)
    node = msgspec.structs.replace(sample_graph(1)[0], attributes=(("x", "y" * 300_000),))
    with serving() as server, RankConversation(server, run="large") as rank:
        for number in range(8):
            rank.send(GraphPart(number, "net", 0, (node,), 1))
        run = server.wait_for("/runs/large", lambda run: bool(run["notices"]))
        assert "[many-graphs]" in run["notices"][0]
        assert len(run["ranks"][0]["graphs"]) == 3
        for _ in range(8):  # A graph that is sent again takes no further room.
            rank.send(GraphPart(0, "net", 0, (node,), None))
        rank.send(Status("running", 9, None, None, None, None, "", 0))
        server.wait_for("/runs/large", lambda run: run["ranks"][0]["step"] == 9)
        assert len(server.get("/runs/large")["ranks"][0]["graphs"]) == 3


def test_steps_that_are_far_apart_take_no_memory(server: Server) -> None:
    norms = np.ones(2, "<f4").tobytes()
    with RankConversation(server, run="far") as rank:
        rank.send(ParameterNames(("a.weight", "b.weight")))
        for step in (3, 10**9, 2**63 - 2):
            rank.send(ParameterNorms(step, norms, norms, norms))
        rank.send(Status("running", 9, None, None, None, None, "", 0))
        server.wait_for("/runs/far", lambda run: run["ranks"][0]["step"] == 9)
        before = peak_memory()
        for part in ("", "&first=3&last=9", "&first=1000000000&last=0", f"&first={-(2**63)}"):
            found = server.get(f"/runs/far/layers?statistic=weight_norm{part}")
            assert found["layers"] == ["a", "b"]
            assert found["first"] == (10**9 if "=1000000000" in part else 3)
        assert server.get("/runs/far/health")["last"] >= 2**63 - 2
        assert peak_memory() - before < 1 << 30


def test_the_bytes_of_names_with_statistics_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST_ROW_BYTES", 1 << 20)
    found = history.StatisticHistory()
    row = bytes(ROW_COLUMNS * 8)
    for step in range(64):
        for _ in range(2):  # The second shares the names of the first.
            found.add_rows(OpStatistics(step, (f"{step}" * 100_000,), (0,), row))
    _, _, kept = found.snapshot()
    assert sum(len(rows.names[0][0]) for rows in kept) <= 1 << 20
    assert kept[-1].step == 63


def peak_memory() -> int:
    """The greatest resident size of this process until now, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_a_huge_generation_does_not_stop_the_commands_of_others(server: Server) -> None:
    with RankConversation(server, run="both", generation=2**63 - 1):
        other = FakeRank(server.rank_port, run="both", rank=1, world_size=2, steps=9).start()
        assert server.control("both", "step", rank=1)["ranks"][1]["step"] == 1
        other.close()
