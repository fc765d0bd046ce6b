"""One connection of a rank, without a training."""

from __future__ import annotations

import socket
import threading

from sonde.debugger.connection.link import Link
from sonde.testing.sample_values import SAMPLE_TOKEN, sample_metadata
from sonde.wire.framing import frame
from sonde.wire.rank import PROTOCOL, Hello, Welcome


def test_a_link_closed_while_it_connects_leaves_no_connection_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    hello = Hello(PROTOCOL, SAMPLE_TOKEN, "run", sample_metadata(), False)
    link = Link(
        "127.0.0.1",
        port,
        access=lambda: (SAMPLE_TOKEN, None),
        hello=lambda resumes: hello,
        deliver=lambda event: None,
    )
    assert not link.open(0.0)
    with socket.create_server(("127.0.0.1", port)) as listener:
        connection, _ = listener.accept()
        assert connection.recv(1 << 16)
        closing = threading.Thread(target=link.close)
        closing.start()
        assert link._stop.wait(10.0)
        connection.sendall(frame(Welcome((), False, 0)))
        connection.settimeout(10.0)
        assert connection.recv(1) == b""
        connection.close()
        closing.join()
    assert not link.is_connected
