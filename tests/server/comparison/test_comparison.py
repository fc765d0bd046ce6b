"""Two dumps on the page: compared in the background, pair by pair."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from tests.server import written_dumps as dumps
from tests.server.serving_in_thread import Server, serving
from tests.server.written_dumps import BACK, LOG, MUL, NET, STEP, SUM

from sonde.server.dumps.run import DumpRun, open_dumps, start_comparison
from sonde.server.http.events import EventBroker


def two(tmp_path: Path, *, fault: str | None = LOG, steps: tuple[int, int] = (0, 0)) -> list[Path]:
    """Two dumps of one step; from the op ``fault`` on, the first one is 1.01 times as large."""
    order = [node.name for node in dumps.GRAPH]
    found = []
    for name, step in zip(("a", "b"), steps, strict=True):
        values = {
            op: np.random.default_rng(place).standard_normal((2, 3)).astype(np.float32)
            for place, op in enumerate(order)
        }
        if fault is not None and name == "a":
            for op in order[order.index(fault) :]:
                values[op] *= np.float32(1.01)
        found.append(dumps.write_dump(tmp_path / name, {step: dumps.outputs(values)}))
    return found


def compared(paths: list[Path]) -> Any:
    def sources(broker: EventBroker) -> list[DumpRun]:
        runs = open_dumps(paths, broker)
        start_comparison(*runs)
        return runs

    return serving(sources=sources)


def finished(server: Server, run: str = "a") -> Any:
    return server.wait_for(f"/runs/{run}/comparison", lambda view: not view["running"], 30)


def test_the_verdict_names_the_first_divergence_with_both_lines(tmp_path: Path) -> None:
    with compared(two(tmp_path)) as server:
        view = finished(server)
        assert (view["verdict"], view["a"], view["b"], view["side"]) == ("diverged", "a", "b", "a")
        pair = view["first"]["pair"]
        assert (pair["a"], pair["b"], pair["step"]) == (LOG, LOG, 0)
        assert pair["source_a"]["file"] == pair["source_b"]["file"] == "/home/me/train.py"
        assert view["first"]["tensor"]["error"] == pytest.approx(0.01, rel=1e-3)
        assert view["counts"]["diverged"] == 1
        assert view["counts"]["inherited"] == 3
        other = finished(server, "b")
        assert (other["side"], other["verdict"]) == ("b", "diverged")


def test_pairs_are_filtered_sorted_and_paged(tmp_path: Path) -> None:
    with compared(two(tmp_path)) as server:
        view = finished(server)
        pairs = server.get("/runs/a/comparison/pairs")
        assert pairs["total"] == view["pairs"] == len(pairs["pairs"])
        orders = [pair["order"] for pair in pairs["pairs"]]
        assert orders == sorted(orders)
        found = server.get("/runs/a/comparison/pairs?status=diverged")["pairs"]
        assert [pair["a"] for pair in found] == [LOG]
        worst = server.get("/runs/a/comparison/pairs?sort=error")["pairs"]
        errors = [pair["error"] for pair in worst]
        assert errors == sorted(errors, reverse=True)
        assert errors[0] > 0.009
        assert [
            pair["a"] for pair in server.get("/runs/a/comparison/pairs?query=LOG")["pairs"]
        ] == [LOG]
        one = server.get(f"/runs/b/comparison/pairs?op={quote(SUM)}")
        assert (one["total"], one["pairs"][0]["tensors"][0]["a"]["op"]) == (1, SUM)
        page = server.get("/runs/a/comparison/pairs?offset=2&limit=1")
        assert (page["total"], page["offset"]) == (view["pairs"], 2)
        assert page["pairs"] == pairs["pairs"][2:3]


def test_boxes_of_the_graph_are_marked_with_the_worst_inside(tmp_path: Path) -> None:
    with compared(two(tmp_path)) as server:
        finished(server)
        top = marks(server, "")
        assert top["Default/"] == ("diverged", True)
        assert top["Gradients/"] == ("inherited", False)
        inside = marks(server, f"{NET}/")
        assert inside[LOG] == ("diverged", True)
        assert inside[SUM] == ("inherited", False)
        assert inside[f"{NET}/fc-Linear/"] == ("equal", False)


def marks(server: Server, scope: str) -> dict[str, tuple[str | None, bool]]:
    found = server.get(f"/runs/a/comparison/marks?scope={quote(scope)}")["marks"]
    return {mark["path"]: (mark["status"], mark["first"]) for mark in found}


def test_ops_without_a_counterpart_are_listed_for_each_side(tmp_path: Path) -> None:
    a, b = two(tmp_path, fault=None)
    graph = dumps.GRAPH
    fewer = type(graph)(0, "Net", tuple(node for node in graph if node.name not in (BACK, STEP)))
    values = dumps.outputs({node.name: np.ones((2, 3), np.float32) for node in fewer})
    b = dumps.write_dump(tmp_path / "less" / "b", {0: values}, graph=fewer)
    with compared([a, b]) as server:
        view = finished(server)
        found = server.get("/runs/a/comparison/unpaired?side=a")
        assert {each["op"] for each in found["unpaired"]} == {BACK, STEP}
        assert (view["unpaired_a"], view["unpaired_b"]) == (2, 0)
        assert server.get("/runs/a/comparison/unpaired?side=b")["total"] == 0
        assert all(each["reason"] for each in found["unpaired"])


def test_equal_dumps_are_aligned(tmp_path: Path) -> None:
    with compared(two(tmp_path, fault=None)) as server:
        view = finished(server)
        assert (view["verdict"], view["first"], view["problem"]) == ("aligned", None, "")
        assert set(view["counts"]) == {"equal"}


def test_dumps_that_have_nothing_in_common_say_why(tmp_path: Path) -> None:
    with compared(two(tmp_path, steps=(0, 5))) as server:
        view = finished(server)
        assert view["verdict"] is None
        assert "no step in common" in view["problem"]
        status, problem = server.ask("GET", "/runs/a/comparison/pairs")
        assert (status, problem["slug"]) == (404, "no-comparison")


def test_a_single_dump_has_no_comparison(tmp_path: Path) -> None:
    path = two(tmp_path)[0]
    with serving(sources=lambda broker: open_dumps([path], broker)) as server:
        status, problem = server.ask("GET", "/runs/a/comparison")
        assert (status, problem["slug"]) == (404, "no-comparison")
        assert "sonde view DIR DIR2" in problem["error"]


def test_multiplication_before_the_fault_is_equal(tmp_path: Path) -> None:
    with compared(two(tmp_path)) as server:
        finished(server)
        (pair,) = server.get(f"/runs/a/comparison/pairs?op={quote(MUL)}")["pairs"]
        assert (pair["status"], pair["error"]) == ("equal", 0)
        assert pair["tensors"][0]["distances"]["equal_count"] == 6
