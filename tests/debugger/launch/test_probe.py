"""Whether a server on a port belongs to this user."""

import os
import socket
import sys

import pytest

from sonde.debugger.launch.probe import is_own_port


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]
)
def test_the_port_of_another_user_is_known(
    family: socket.AddressFamily, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server((host, 0), family=family) as server:
        port = server.getsockname()[1]
        assert is_own_port(port)
        monkeypatch.setattr(os, "getuid", lambda: 12345)
        assert not is_own_port(port)
    assert is_own_port(port)  # No program listens there any more.
