"""The comparison of the ranks of a live run, as the page asks for it."""

from __future__ import annotations

import resource
from typing import Any

import pytest
from tests.server.serving_in_thread import serving

from sonde.testing.fake_rank import FakeRank, RankSocket
from sonde.testing.sample_graph import sample_graph
from sonde.testing.sample_reports import odd_rank, sample_reports
from sonde.testing.sample_values import SAMPLE_TOKEN, sample_metadata
from sonde.wire.rank import PROTOCOL, Hello, JobEnd, JobStart, RankReports, Status

STEPS = 8


def test_a_thousand_ranks_connect_and_the_odd_one_is_named() -> None:
    count = 1000
    most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most[0] < 2 * count + 200:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, most[1]), most[1]))
    with serving(paused=False) as server:
        sockets = []
        for rank in range(count):
            link = RankSocket("127.0.0.1", server.rank_port)
            link.send(Hello(PROTOCOL, SAMPLE_TOKEN, "job", sample_metadata(rank, count), False))
            link.receive()
            link.send(JobStart(0.0))
            sockets.append(link)
        for rank, link in enumerate(sockets):
            for step in range(STEPS):
                link.send(RankReports(sample_reports(rank, count, step)))
        found = server.wait_for(
            "/runs/job/ranks", lambda view: view["judged_steps"] == STEPS, seconds=60
        )
        assert (found["world_size"], len(found["ranks"])) == (count, count)
        (finding,) = [each for row in found["checks"] for each in row["findings"]]
        assert finding["kind"] == "replicas-differ"
        assert finding["ranks"] == [odd_rank(count)]
        assert found["parted_step"] == 2
        for link in sockets:
            link.close()


def test_ranks_that_are_not_compared_say_so() -> None:
    with serving() as server:
        rank = FakeRank(server.rank_port, run="job").start()
        view = server.get("/runs/job/ranks")
        assert not view["is_compared"]
        rank.close()


@pytest.mark.parametrize(
    ("merge", "kind", "shape"),
    [("", "concatenate", 2), ("&merge=mean", "mean", 1), ("&merge=one", "one", 1)],
)
def test_a_tensor_of_two_ranks_is_shown_side_by_side_and_merged(
    merge: str, kind: str, shape: int
) -> None:
    nodes = sample_graph(1)
    op = next(node.name for node in nodes if node.type == "Parameter")
    with serving() as server:
        ranks = [
            FakeRank(server.rank_port, run="job", rank=rank, world_size=2, nodes=nodes).start()
            for rank in range(2)
        ]
        server.wait_for("/runs/job", lambda run: len(run["ranks"]) == 2)
        server.control("job", "step", steps=1)
        found = server.get(f"/runs/job/ranks/tensor?op={op}{merge}")
        one, other = found["ranks"]
        assert (one["same_as"], other["same_as"]) == (0, 1)
        assert other["distances"]["max_abs_error"] > 0
        merged = found["merged"]
        assert merged["kind"] == kind
        assert merged["type"]["shape"][0] == shape * one["type"]["shape"][0]
        for rank in ranks:
            rank.close()


def test_shapes_that_cannot_be_merged_are_named() -> None:
    nodes = sample_graph(1)
    op = next(node.name for node in nodes if node.type == "Parameter")
    with serving() as server:
        rank = FakeRank(server.rank_port, run="job", nodes=nodes).start()
        server.control("job", "step", steps=1)
        found = server.get(f"/runs/job/ranks/tensor?op={op}&merge=concatenate&dim=9")
        assert found["merged"] is None
        assert "cannot be concatenated along dimension 9" in found["why_not_merged"]
        rank.close()


@pytest.mark.parametrize("order", ["raises first", "is lost first"])
def test_rank_that_is_lost_has_stopped_whatever_is_noticed_first(order: str) -> None:
    """The other rank fails a moment after it, and the server may read that before."""
    with serving(paused=False) as server:
        lost, raising = (joined(server.rank_port, rank) for rank in range(2))
        for rank, link in enumerate((lost, raising)):
            link.send(RankReports(sample_reports(rank, 2, 0)))
        server.wait_for("/runs/job/ranks", lambda view: view["judged_steps"] == 1)
        if order == "is lost first":
            lost.close()
            server.wait_for("/runs/job", lambda run: run["ranks"][0]["state"] == "lost")
        raising.send(JobEnd("RuntimeError", "Connection closed by peer", "train.py:9"))
        raising.send(Status("running", 7, None, None, None, None, "", 0))
        server.wait_for("/runs/job", lambda run: run["ranks"][1]["step"] == 7)
        lost.close()
        found = server.wait_for("/runs/job/ranks", lambda view: any_finding(view))
        (finding,) = [each for row in found["checks"] for each in row["findings"]]
        assert (finding["kind"], finding["ranks"]) == ("rank-stopped", [0])
        assert "the process of rank 0 has ended after step 0" in finding["message"]
        raising.close()


def joined(port: int, rank: int) -> RankSocket:
    link = RankSocket("127.0.0.1", port)
    link.send(Hello(PROTOCOL, SAMPLE_TOKEN, "job", sample_metadata(rank, 2), False))
    link.receive()
    link.send(JobStart(0.0))
    return link


def any_finding(view: dict[str, Any]) -> bool:
    return any(row["findings"] for row in view["checks"])
