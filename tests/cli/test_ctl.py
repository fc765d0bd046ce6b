"""``sonde ctl`` against a real server and a simulated rank."""

import json
import os
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
import pytest
from tests.server import written_dumps as dumps
from tests.server.serving_in_thread import Server, serving
from tests.server.test_hit_store import hit

from sonde.cli import ctl as ctl_command
from sonde.cli.main import main
from sonde.debugger.launch.server_registry import ServerState, announce_server, running_servers
from sonde.server import hit_store
from sonde.server.dumps.run import open_dumps
from sonde.testing.fake_rank import FakeRank, RankSocket
from sonde.testing.sample_graph import sample_graph
from sonde.testing.sample_values import SAMPLE_TOKEN, sample_metadata
from sonde.wire.rank import (
    PROTOCOL,
    Answer,
    Ask,
    ControlMessage,
    Goodbye,
    GraphPart,
    Hello,
    Hits,
    Status,
    Welcome,
)
from sonde.wire.shapes import Verdict

LOG = "Default/network-Net/loss-Loss/log-op0"


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runtime").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.delenv("SONDE_DEBUGGER_TOKEN", raising=False)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as found:
        state = ServerState.of("127.0.0.1", found.port, found.rank_port, found.token)
        with announce_server(state):
            yield found


@pytest.fixture
def rank(server: Server) -> Iterator[FakeRank]:
    found = FakeRank(server.rank_port).start()
    server.wait_for("/runs", lambda answer: answer["runs"][0]["ranks"][0]["state"] == "paused")
    yield found
    found.close()


def ctl(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main(["ctl", *words])
    said = capsys.readouterr()
    return code, said.out + said.err


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
def test_a_check_of_available_values_reports_the_missing_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, text = ctl(capsys, "recheck")
    assert (code, text) == (2, "sonde: there are no watchpoints to check [no-such-watchpoint]\n")
    ctl(capsys, "watch", "add", "tensor_overflow")
    code, text = ctl(capsys, "recheck")
    first, note = text.splitlines()
    assert (code, first) == (0, "1 tensor checked in total, 0 hits")
    assert "are not available, because their values were not kept (data, blocks.0.linear" in note


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


@pytest.mark.usefixtures("rank")
def test_a_pattern_without_a_match_is_accepted_with_force(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, text = ctl(capsys, "watch", "add", "tensor_overflow", "--ops", "nosuch", "--force")
    assert code == 0
    assert text.splitlines() == [
        "1: tensor_overflow on nosuch",
        "sonde: no op, parameter or gradient seen so far matches 'nosuch'",
    ]


def test_before_the_first_step_a_pattern_is_accepted_with_a_warning(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    rank = RankSocket("127.0.0.1", server.rank_port)
    rank.send(Hello(PROTOCOL, SAMPLE_TOKEN, "young", sample_metadata(), False))
    assert isinstance(rank.receive(), Welcome)
    code, text = ctl(capsys, "watch", "add", "tensor_overflow", "--ops", "relu")
    assert (code, text.splitlines()[0]) == (0, "1: tensor_overflow on relu")
    assert "not all ops are known before the first step" in text
    rank.close()


@pytest.mark.usefixtures("rank")
def test_a_training_runs_to_a_scope(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(
        FakeRank, "_obey", lambda self, control: (told.append(control.op), self._pause("op"))
    )
    for words in ("loss-Loss/", "Default/network-Net/loss-Loss/", "loss-Loss"):
        assert ctl(capsys, "to", words, "--no-wait")[0] == 0
    assert told == ["Default/network-Net/loss-Loss/"] * 3


def test_names_are_found_in_other_graphs_while_that_of_the_step_grows(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = sample_graph()
    rank = RankSocket("127.0.0.1", server.rank_port)
    rank.send(Hello(PROTOCOL, SAMPLE_TOKEN, "growing", sample_metadata(), False))
    rank.send(GraphPart(0, "Net", 0, nodes, len(nodes)))
    rank.send(GraphPart(1, "Net", 0, nodes[:1], None))
    rank.send(Status("paused", 2, 1, "data", 0, "op", "", 0))
    server.wait_for("/runs", lambda found: found["runs"][0]["ranks"][0]["graph"] == 1)
    assert ctl(capsys, "to", "act-Tanh/", "--no-wait") == (
        2,
        "sonde: 8 scopes match 'act-Tanh/': "
        + ", ".join(f"Default/network-Net/blocks-ModuleList/{n}-Block/act-Tanh/" for n in range(4))
        + ", Gradients/Default/network-Net/blocks-ModuleList/3-Block/act-Tanh/"
        "; give the full path [no-such-scope]\n",
    )
    assert ctl(capsys, "to", "1-Block/", "--no-wait")[0] == 0
    asked = threading.Thread(target=ctl, args=(capsys, "tensor", "blocks.1.linear.weight"))
    asked.start()
    while not isinstance(message := rank.receive(), Ask):
        assert message is not None
    assert message.tensor.op == "blocks.1.linear.weight"
    rank.send(Answer(message.request, error="so it was found", slug="no-such-tensor"))
    asked.join()
    rank.close()


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


def test_a_training_that_fails_or_is_late_has_its_own_exit_code(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = FakeRank(server.rank_port, run="slow", steps=10_000, step_seconds=0.01).start()
    code, text = ctl(capsys, "--run", "slow", "continue", "--wait", "--timeout", "0.1")
    assert (code, "timeout: the training still runs" in text) == (4, True)
    slow.close()
    fine = FakeRank(server.rank_port, run="fine", steps=2).start()
    assert ctl(capsys, "--run", "fine", "continue", "--wait")[0] == 0
    fine.join()
    lost = FakeRank(server.rank_port, run="lost", steps=10_000, step_seconds=0.01).start()
    killer = threading.Timer(0.3, lost.close)
    killer.start()
    assert ctl(capsys, "--run", "lost", "continue", "--wait")[0] == 3
    killer.join()


@pytest.mark.parametrize(("exit_code", "expected"), [(0, 0), (1, 3)])
def test_the_exit_code_of_a_training_decides_whatever_it_printed_last(
    server: Server, capsys: pytest.CaptureFixture[str], exit_code: int, expected: int
) -> None:
    rank = RankSocket("127.0.0.1", server.rank_port)
    rank.send(Hello(PROTOCOL, SAMPLE_TOKEN, "words", sample_metadata(), False))
    rank.send(Status("running", 0, None, None, None, None, "", 0))
    rank.send(Goodbye(exit_code, "ended with exit code 0"))
    server.wait_for("/runs", lambda found: found["runs"][0]["ranks"][0]["state"] == "ended")
    assert ctl(capsys, "continue", "--wait")[0] == expected
    rank.close()


def test_a_training_that_ends_before_the_op_comes_has_not_run_to_it(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    rank = FakeRank(server.rank_port, run="brief", steps=1).start()
    assert ctl(capsys, "--run", "brief", "to", LOG)[0] in (0, 1)
    code, text = ctl(capsys, "--run", "brief", "to", LOG)
    assert (code, f"ended before it reached {LOG}" in text) == (3, True)
    rank.join()


def test_the_client_continues_to_wait_after_the_timeout_of_the_server(
    server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctl_command, "_HELD_SECONDS", 0.01)
    monkeypatch.setattr(ctl_command, "_POLL_SECONDS", 0.02)
    rank = FakeRank(server.rank_port, run="long", steps=30, step_seconds=0.02).start()
    assert ctl(capsys, "--run", "long", "step", "10")[0] == 0
    assert server.get("/runs/long")["ranks"][0]["step"] == 10
    assert ctl(capsys, "--run", "long", "continue", "--wait", "--timeout", "0.05")[0] == 4
    assert ctl(capsys, "--run", "long", "continue", "--wait")[0] == 0
    assert server.get("/runs/long")["ranks"][0]["state"] == "ended"
    rank.join()


def test_a_server_and_a_training_that_come_soon_are_waited_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ctl(capsys, "--patience", "0.3", "status")[0] == 2
    with (
        serving() as late,
        announce_server(ServerState.of("127.0.0.1", late.port, late.rank_port, late.token)),
    ):
        assert ctl(capsys, "--patience", "0.3", "status") == (0, "no training is connected yet\n")
        assert ctl(capsys, "--patience", "0.3", "hits")[0] == 2
        ranks: list[FakeRank] = []
        begin = threading.Timer(0.5, lambda: ranks.append(FakeRank(late.rank_port).start()))
        begin.start()
        code, text = ctl(capsys, "--patience", "60", "continue", "--wait")
        assert (code, "rank 0: ended" in text) == (0, True)
        begin.join()
        ranks[0].join()
    assert ctl(capsys, "--patience", "-1", "status")[0] == 2


def test_the_exit_code_is_that_of_the_requested_rank(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    ranks = [
        FakeRank(server.rank_port, rank=number, steps=10_000, step_seconds=0.01).start()
        for number in (0, 1)
    ]
    server.wait_for("/runs/run-1", lambda run: len(run["ranks"]) == 2)
    assert ctl(capsys, "watch", "add", "tensor_overflow")[0] == 0
    assert ctl(capsys, "continue", "--wait", "--rank", "0")[0] == 1
    assert ctl(capsys, "watch", "remove", "1")[0] == 0
    code, text = ctl(capsys, "continue", "--wait", "--timeout", "0.1", "--rank", "1")
    assert (code, "rank 0: paused (hit)" in text, "timeout: the training still runs" in text) == (
        4,
        True,
        True,
    )
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


def test_a_server_that_is_not_there_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = ctl(capsys, "status")
    assert (code, "you have no running server on this machine" in text) == (2, True)
    code, text = ctl(capsys, "--server", "127.0.0.1:1", "status")
    assert (code, "[no-server]" in text) == (2, True)
    assert ctl(capsys, "--server", "ftp://x", "status")[0] == 2


HIDDEN = "hidden-from-all-others"


def test_the_token_of_the_user_s_own_server_is_found(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with serving(host="0.0.0.0", token=HIDDEN) as found:
        assert "requires its token" in ctl(capsys, "--server", found.url, "status")[1]
        assert ctl(capsys, "--server", found.url, "--token", "wrong", "status") == (
            2,
            "sonde: wrong token [token]\n",
        )
        assert ctl(capsys, "--server", found.url, "--token", HIDDEN, "status")[0] == 0
        printed = ServerState.of("0.0.0.0", found.port, found.rank_port, HIDDEN).address
        assert ctl(capsys, "--server", printed, "status")[0] == 0
        assert ctl(capsys, "--server", f"{printed}&run=a&tab=graph#x", "status")[0] == 0
        with announce_server(ServerState.of("0.0.0.0", found.port, found.rank_port, HIDDEN)):
            assert ctl(capsys, "status")[0] == 0
            assert ctl(capsys, "--server", found.url, "status")[0] == 0


def test_of_several_servers_the_newest_is_named(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    state = ServerState.of("127.0.0.1", server.rank_port, None, "")
    with announce_server(msgspec.structs.replace(state, started=0.0)):
        assert ctl(capsys, "status") == (
            0,
            "no training is connected yet\nsonde: you have 2 running servers on this "
            f"machine; using the newest, {server.url}; choose another with --server\n",
        )
        assert "servers" not in ctl(capsys, "--server", server.page, "status")[1]


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


@pytest.mark.document(227)
def test_a_step_without_the_op_is_reported_and_fails(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    rank = RankSocket("127.0.0.1", server.rank_port)
    rank.send(Hello(PROTOCOL, SAMPLE_TOKEN, "short", sample_metadata(), False))
    rank.send(Status("paused", 0, None, None, None, "start", "", 0))
    server.wait_for("/runs", lambda found: found["runs"] and found["runs"][0]["controls"])

    def run_a_step() -> None:
        while not isinstance(message := rank.receive(), ControlMessage):
            pass
        why = f"{message.op} did not run in step 0"
        rank.send(Status("paused", 1, 0, None, None, "missed", why, message.generation))

    training = threading.Thread(target=run_a_step)
    training.start()
    code, text = ctl(capsys, "to", "Default/relu-op7")
    training.join()
    assert code == 3
    assert text.splitlines()[1:] == [
        "  rank 0: paused (missed) step 1",
        "    Default/relu-op7 did not run in step 0",
    ]
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


def test_files_of_dead_servers_and_of_other_users_are_ignored(tmp_path: Path) -> None:
    directory = tmp_path / "runtime" / "sonde-servers"
    dead = ServerState("http://127.0.0.1:1", "127.0.0.1", 1, None, "", 2**22 + 5, 0.0)
    directory.mkdir(mode=0o700)
    (directory / "dead.json").write_bytes(msgspec.json.encode(dead))
    (directory / "damaged.json").write_text("{")
    assert running_servers() == []
    assert not (directory / "dead.json").exists()
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        announce_server(ServerState.of("127.0.0.1", listening.getsockname()[1], None, "")),
    ):
        alive = ServerState.of("127.0.0.1", 1, None, "")  # Its number is that of a process here.
        (directory / "reused.json").write_bytes(msgspec.json.encode(alive))
        assert [state.port for state in running_servers()] == [listening.getsockname()[1]]
        os.chmod(directory, 0o777)
        assert running_servers() == []
        os.chmod(directory, 0o700)


def test_every_command_is_in_the_docs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "debugger.md").read_text()
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
