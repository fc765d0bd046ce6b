"""A server that is away, comes back, refuses, or talks nonsense."""

from __future__ import annotations

import socket
import struct
import sys
import threading
import time
from dataclasses import replace

import pytest
from tests.debugger.driving import OPTIONS, driven, make_net, train
from tests.debugger.hub import Hub, RankConnection, watchpoint

from sonde.adapters.torch.attach import attach
from sonde.debugger.connection.session import ServerSession
from sonde.testing.sample_values import SAMPLE_TOKEN, sample_metadata
from sonde.wire.framing import GONE_SECONDS, notice_absence
from sonde.wire.questions import AskSummary, Summary
from sonde.wire.rank import MOST_BYTES, PROTOCOL, Goodbye, Hello, Hits, StepDone
from sonde.wire.shapes import Hit, TensorType


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        number: int = probe.getsockname()[1]
        return number


def test_without_a_server_the_training_runs_as_ever(capfd: pytest.CaptureFixture[str]) -> None:
    options = replace(OPTIONS, port=free_port(), wait_seconds=0.0, pause=True)
    with attach(None, starts_at_once=False, debugger=options):
        losses = train(make_net(), 3)
    assert losses == train(make_net(), 3)
    said = capfd.readouterr().err
    assert said.count("[debugger-absent]") == 1
    assert "paused" not in said


def test_a_server_that_refuses_is_left_alone(capfd: pytest.CaptureFixture[str]) -> None:
    with Hub() as hub:
        hub.refusal = "the token is wrong"
        options = replace(OPTIONS, port=hub.port, wait_seconds=0.0, pause=True)
        with attach(None, starts_at_once=False, debugger=options):
            train(make_net(), 2)
        assert len(hub.ranks) == 1
    said = [line for line in capfd.readouterr().err.splitlines() if line.startswith("sonde:")]
    assert said == [
        f"sonde: the debugger server at 127.0.0.1:{hub.port} refuses this training: the token is "
        "wrong; the training continues without the debugger [debugger-refused]"
    ]


@pytest.mark.parametrize(
    "garbage",
    [b"\xff" * 8, struct.pack(">I", 3) + b"\x93\x01", struct.pack(">I", 2) + b"{}"],
    ids=["too long", "cut off", "not MessagePack"],
)
def test_nonsense_ends_the_connection_and_nothing_else(
    garbage: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    def person(rank: RankConnection) -> None:
        rank.paused()
        rank.send_bytes(garbage + bytes(16))
        rank.ended()

    losses, _ = driven(lambda: train(make_net(), 3), person)
    assert losses == train(make_net(), 3)
    said = capfd.readouterr().err
    assert said.count("sent an invalid message") == said.count("[debugger-garbage]") == 1


def test_something_else_that_listens_there_is_said(capfd: pytest.CaptureFixture[str]) -> None:
    def answer(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(1 << 16)
            connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=answer, args=(listener,), daemon=True).start()
        options = replace(OPTIONS, port=listener.getsockname()[1], pause=True)
        with attach(None, starts_at_once=False, debugger=options):
            train(make_net(), 1)
    said = [line for line in capfd.readouterr().err.splitlines() if line.startswith("sonde:")]
    assert said == [
        f"sonde: the program at {options.address} is not a debugger server (a message of "
        "1213486160 bytes; at most 67108864 are allowed); the training continues without the "
        "debugger [debugger-garbage]"
    ]


def test_a_paused_training_goes_on_when_the_server_stays_away(
    capfd: pytest.CaptureFixture[str],
) -> None:
    hub = Hub()

    def person(rank: RankConnection) -> None:
        rank.paused()
        hub.close()

    with hub:
        chair = threading.Thread(target=lambda: person(hub.rank()))
        chair.start()
        options = replace(OPTIONS, port=hub.port, lost_seconds=0.2)
        with attach(None, starts_at_once=False, debugger=options):
            losses = train(make_net(), 3)
        chair.join()
    assert losses == train(make_net(), 3)
    said = capfd.readouterr().err
    assert "the training stays paused for 0.2 s, then continues [debugger-lost]" in said
    assert "did not return; the training continues" in said


def test_a_server_that_was_started_again_learns_everything() -> None:
    port = free_port()
    first = Hub(port=port, watchpoints=(watchpoint(7, "weight_not_changed"),))
    seconds: list[Hub] = []

    def person() -> None:
        rank = first.rank()
        rank.paused()
        rank.control("step", steps=2)
        rank.paused()
        first.close()
        second = Hub(port=port).__enter__()
        seconds.append(second)
        again = second.rank()
        assert again.paused().reason == "step"
        assert again.hello.resumes
        assert [spec.id for spec in again.hello.watchpoints] == [7]
        assert "fc1.weight.grad" in again.nodes(0)
        assert [step.point.step for step in again.all(StepDone)] == [0, 1]
        assert again.answer("fc1.weight", AskSummary(), Summary).type.shape == (16, 8)
        again.control("step")
        assert again.paused().step == 3
        again.control("continue")

    failures: list[BaseException] = []

    def sit() -> None:
        try:
            person()
        except BaseException as error:
            failures.append(error)
            for hub in (first, *seconds):
                hub.close()

    with first:
        chair = threading.Thread(target=sit)
        chair.start()
        options = replace(OPTIONS, port=port, lost_seconds=20.0)
        with attach(None, starts_at_once=False, debugger=options):
            losses = train(make_net(), 5)
        chair.join()
    for hub in seconds:
        hub.close()
    assert failures == []
    assert losses == train(make_net(), 5)


def test_a_server_that_was_started_again_with_another_token_can_be_put_right(
    capfd: pytest.CaptureFixture[str],
) -> None:
    port = free_port()
    first = Hub(port=port)

    def person() -> None:
        first.rank().paused()
        first.close()
        with Hub(port=port) as second:
            second.refusal = "its token is another"
            second.rank(connection=2).ended()  # It is refused three times, and says so once.
            second.refusal = ""
            again = second.rank(connection=3)
            if len(again.seen) == 1 and again.is_over:  # It came a moment too early.
                again = second.rank(connection=4)
            assert again.paused().reason == "start"
            again.control("continue")
            again.ended()

    with first:
        chair = threading.Thread(target=person)
        chair.start()
        options = replace(OPTIONS, port=port, lost_seconds=80.0)
        with attach(None, starts_at_once=False, debugger=options):
            losses = train(make_net(), 3)
        chair.join()
    assert losses == train(make_net(), 3)
    said = capfd.readouterr().err
    assert said.count("its token is another; the training stays paused for ") == 1
    assert said.count("[debugger-refused]") == said.count("[debugger-lost]") == 1
    assert "continues without" not in said


def test_a_server_that_comes_late_is_found() -> None:
    port = free_port()
    hubs: list[Hub] = []

    def training() -> int:
        net = make_net()
        train(net, 2)
        hubs.append(Hub(port=port, paused=False).__enter__())
        deadline = time.monotonic() + 30
        while not any(rank.steps for rank in hubs[0].ranks) and time.monotonic() < deadline:
            train(net, 1)
        return 0

    options = replace(OPTIONS, port=port, wait_seconds=0.0)
    with attach(None, starts_at_once=False, debugger=options):
        training()
    rank = hubs[0].rank()
    rank.ended()
    assert "fc1.weight" in rank.nodes(0)
    assert rank.all(StepDone)[0].point.step == 0
    hubs[0].close()


def test_hits_that_are_too_many_for_a_message_are_sent_in_several() -> None:
    chain = tuple(f"Default/{'deep/' * 60}op{number}" for number in range(200))
    kind = TensorType("float32", (2, 3))
    hits = [
        Hit(n, 1, "c", 0, 0, n, "op", "output", 0, kind, "hit", "", (), chain=chain)
        for n in range(1200)
    ]
    assert len(hits) * sum(map(len, chain)) > MOST_BYTES
    with Hub() as hub:
        talk = ServerSession(
            replace(OPTIONS, port=hub.port),
            hello=lambda resumes: Hello(PROTOCOL, SAMPLE_TOKEN, "r", sample_metadata(), resumes),
            interrupt=lambda news: None,
            report=print,
        )
        talk.open()
        talk.report_hits(hits)
        talk.report_hits([])
        talk.close(Goodbye(0, ""))
        rank = hub.rank()
        rank.ended()
    messages = rank.all(Hits)
    assert len(messages) > 1
    assert [hit.number for message in messages for hit in message.hits] == list(range(1200))


@pytest.mark.skipif(sys.platform != "linux", reason="other systems count otherwise")
def test_a_machine_that_vanished_is_missed_within_a_minute() -> None:
    with socket.socket() as connection:
        notice_absence(connection)
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        idle, interval, count = (
            connection.getsockopt(socket.IPPROTO_TCP, option)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        )
        assert idle + interval * count == GONE_SECONDS
        timeout = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
        assert timeout == 1000 * GONE_SECONDS
