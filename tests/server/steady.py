"""A server under attack, with a normal rank that must not be affected."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.server.serving_in_thread import Server, serving

from sonde.testing.fake_rank import FakeRank


@contextmanager
def serving_a_steady_rank() -> Iterator[Server]:
    with serving() as found:
        rank = FakeRank(found.rank_port, run="steady").start()
        yield found
        rank.close()


def is_well(server: Server) -> bool:
    """The server answers, and the rank that behaves is still there."""
    return bool(server.get("/runs/steady")["ranks"][0]["state"] == "paused")
