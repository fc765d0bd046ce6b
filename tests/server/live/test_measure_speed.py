"""A request to run one step unobserved: which step the ranks are asked for, and when it is over."""

from tests.server.serving_in_thread import Server

from sonde.testing.fake_rank import FakeRank, RankSocket
from sonde.testing.sample_values import sample_metadata
from sonde.wire.rank import PROTOCOL, Hello, MeasureSpeed, Status, StepDone
from sonde.wire.shapes import LossPoint


def connected(server: Server, rank: int, *, step: int, state: str) -> RankSocket:
    found = RankSocket("127.0.0.1", server.rank_port)
    found.send(Hello(PROTOCOL, server.token, "mine", sample_metadata(rank, 2), False))
    found.receive()
    found.send(StepDone(LossPoint(step - 1, None, 0.5, None, True), None))
    found.send(Status(state, step, None, None, None, None, "", 0))  # type: ignore[arg-type]
    return found


def test_all_ranks_get_the_same_step_far_enough_ahead(server: Server) -> None:
    for state, first in (("paused", 8), ("running", 8 + 2 + 4)):
        ranks = [connected(server, n, step=7 + n, state=state) for n in range(2)]
        server.wait_for("/runs/mine", lambda run: [each["step"] for each in run["ranks"]] == [7, 8])
        server.wait_for(
            "/runs/mine",
            lambda run, state=state: all(each["state"] == state for each in run["ranks"]),
        )
        assert server.ask("POST", "/runs/mine/measure-speed")[0] == 200
        assert [rank.receive() for rank in ranks] == [MeasureSpeed(first)] * 2
        for rank in ranks:
            rank.close()
        server.wait_for(
            "/runs/mine", lambda run: all(each["state"] == "lost" for each in run["ranks"])
        )


def test_a_rank_measures_until_the_unobserved_step_is_over(server: Server) -> None:
    rank = FakeRank(server.rank_port).start()
    server.wait_for("/runs/run-1", lambda run: run["ranks"][0]["state"] == "paused")
    server.control("run-1", "step", steps=2)
    status, run = server.ask("POST", "/runs/run-1/measure-speed")
    assert status == 200
    assert run["ranks"][0]["is_measuring"]
    server.control("run-1", "step", steps=3)
    run = server.wait_for("/runs/run-1", lambda run: not run["ranks"][0]["is_measuring"])
    assert run["ranks"][0]["bare_seconds"] == 0.008
    rank.close()
    server.wait_for("/runs/run-1", lambda run: run["ranks"][0]["state"] == "lost")
    status, answer = server.ask("POST", "/runs/run-1/measure-speed")
    assert (status, answer["slug"]) == (409, "run-ended")
