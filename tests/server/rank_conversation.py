"""A rank that says only what a test tells it to, and names of the sample training."""

from tests.server.serving_in_thread import Server

from sonde.testing.fake_rank import RankSocket
from sonde.testing.sample_values import SAMPLE_TOKEN, sample_metadata
from sonde.wire.rank import PROTOCOL, Hello

LOG = "Default/network-Net/loss-Loss/log-op0"
OVERFLOW = {"name": "bad", "conditions": [{"id": "tensor_overflow"}]}


class RankConversation:
    """A connection that said hello."""

    def __init__(self, server: Server, run: str = "mine", **more: object) -> None:
        self._server, self._run, self._more = server, run, more

    def __enter__(self) -> RankSocket:
        self.socket = RankSocket("127.0.0.1", self._server.rank_port)
        fields = {"resumes": False, **self._more}
        hello = Hello(PROTOCOL, SAMPLE_TOKEN, self._run, sample_metadata(), **fields)  # type: ignore[arg-type]
        self.socket.send(hello)
        self.welcome = self.socket.receive()
        return self.socket

    def __exit__(self, *_: object) -> None:
        self.socket.close()
