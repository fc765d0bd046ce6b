"""A program between the training and the server, or in the place of the server."""

import threading
from pathlib import Path

import pytest
from tests.attacks.certificates import self_signed
from tests.server.serving_in_thread import serving

from sonde.cli.ctl_client import Client
from sonde.cli.main import main
from sonde.core.errors import UsageError
from sonde.debugger.connection.link import Connected, Disconnected, Link, ServerEvent
from sonde.debugger.launch.probe import is_server
from sonde.testing.sample_values import sample_metadata
from sonde.wire.rank import PROTOCOL, Hello, StepDone
from sonde.wire.shapes import LossPoint
from sonde.wire.tls import Trust, trust_from_environment


def connect(port: int, token: str, trust: Trust | None) -> tuple[Link, list[ServerEvent]]:
    events: list[ServerEvent] = []
    link = Link(
        "127.0.0.1",
        port,
        access=lambda: (token, trust),
        hello=lambda resumes: Hello(PROTOCOL, "", "r", sample_metadata(), resumes),
        deliver=events.append,
    )
    link.open(5.0)
    return link, events


@pytest.mark.parametrize("way", ["fingerprint", "authority"])
def test_ranks_and_clients_trust_a_self_signed_certificate(tmp_path: Path, way: str) -> None:
    certificate = self_signed(tmp_path)
    known = {"SONDE_DEBUGGER_FINGERPRINT": certificate.fingerprint()}
    if way == "authority":
        known = {"SONDE_DEBUGGER_CA": certificate.certificate}
    trust = trust_from_environment(known)
    assert trust is not None
    with serving(certificate=certificate) as server:
        assert is_server("127.0.0.1", server.rank_port, trust)
        link, events = connect(server.rank_port, server.token, trust)
        assert isinstance(events[0], Connected)
        client = Client(f"https://127.0.0.1:{server.port}", server.token, trust)
        # Two threads send at the same time, while the link's own thread reads.
        point = LossPoint(0, 0.5, 0.1, None, False)
        senders = [
            threading.Thread(target=lambda: [link.send(StepDone(point, None)) for _ in range(200)])
            for _ in range(2)
        ]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
        assert client.get("/runs/r")["ranks"][0]["state"] == "waiting"
        assert link.is_connected
        link.close()


def test_another_certificate_is_not_trusted(tmp_path: Path) -> None:
    theirs = self_signed(tmp_path)
    (tmp_path / "ours").mkdir()
    ours = self_signed(tmp_path / "ours")
    with serving(certificate=theirs) as server:
        for trust in (Trust(ours.fingerprint()), Trust(authorities=ours.certificate), Trust()):
            link, events = connect(server.rank_port, server.token, trust)
            assert isinstance(events[0], Disconnected)
            assert events[0].slug == "tls"
            assert not link.is_connected
            with pytest.raises(UsageError):
                Client(f"https://127.0.0.1:{server.port}", server.token, trust).get("/runs")
        assert list(server.runs) == []


def test_the_token_is_not_sent_to_a_server_without_tls_if_tls_is_expected(tmp_path: Path) -> None:
    with serving() as server:
        link, events = connect(
            server.rank_port, server.token, Trust(self_signed(tmp_path).fingerprint())
        )
        assert not any(isinstance(event, Connected) for event in events)
        link.close()
        assert list(server.runs) == []


@pytest.mark.parametrize("command", ["serve", "view"])
def test_a_certificate_that_cannot_be_used_is_reported_in_a_line(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.pem"
    bad.write_text("not a certificate")
    words = [command, "--port", "0"] + ([str(tmp_path)] if command == "view" else [])
    for given in (["--certfile", str(bad)], ["--certfile", "none.pem"], ["--keyfile", str(bad)]):
        assert main([*words, *given]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert said.rstrip().endswith("[tls]")
