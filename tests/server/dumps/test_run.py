"""Dumps on the page: graph, tensors, curves, checks; by Sonde and by MindSpore."""

import io
import os
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import msgspec
import numpy as np
import pytest
from tests.server import written_dumps as dumps
from tests.server.serving_in_thread import Server, serving
from tests.server.written_dumps import BACK, LOG, MUL, STEP, SUM, WEIGHT, X

from sonde.core.errors import DumpError
from sonde.core.graph import Graph, OpNode
from sonde.dump import layout
from sonde.dump.file_names import FileNamer
from sonde.server.dumps import cache as dump_cache
from sonde.server.dumps import index as dump_shelf
from sonde.server.dumps.check import check_dump
from sonde.server.dumps.index import IndexedDump
from sonde.server.dumps.run import open_dumps
from sonde.server.hit_store import HitStore
from sonde.server.http.events import EventBroker
from sonde.wire.shapes import ConditionSpec
from sonde.wire.watchpoints import WatchpointDraft

MINDSPORE = Path(__file__).parents[2] / "dump" / "data"
COUNTS = ("max", "min", "avg", "l2norm", "nan count", "positive inf count", "negative inf count")


def bad_steps() -> dict[int, dumps.Tensors]:
    """Three steps; in step 1 the log makes a NaN that goes on to the weight of step 2."""
    steps = {step: dict(dumps.outputs(dumps.finite(step))) for step in range(3)}
    for op in (LOG, SUM, BACK, STEP):
        steps[1][(op, "output", 0)][0, 1] = np.nan
    steps[2][(WEIGHT, "output", 0)][0, 1] = np.nan
    return steps  # type: ignore[return-value]


def draft(condition: str = "tensor_overflow", **parameters: float) -> WatchpointDraft:
    return WatchpointDraft("", (ConditionSpec(condition, parameters),))


def expression(text: str) -> WatchpointDraft:
    return WatchpointDraft("", (ConditionSpec("expression", {}, text),))


def found(book: HitStore) -> list[tuple[int, str, str]]:
    return [(hit.step, hit.op, hit.part) for hit in book.in_order() if hit.verdict == "hit"]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Server]:
    dumps.write_dump(tmp_path / "a", bad_steps())
    dumps.write_dump(tmp_path / "b", {0: dumps.outputs(dumps.finite(5))})
    paths = [tmp_path / "a", tmp_path / "b"]
    with serving(sources=lambda broker: open_dumps(paths, broker)) as server:
        yield server


def test_a_dump_is_a_run_that_ended(served: Server) -> None:
    a, b = served.get("/runs")["runs"]
    assert (a["id"], a["kind"], a["peer"], b["peer"]) == ("a", "dump", "b", "a")
    rank = a["ranks"][0]
    assert (rank["state"], rank["steps"], rank["graph"]) == ("ended", [0, 1, 2], 0)
    assert rank["metadata"]["framework"] == "torch"
    assert served.ask("POST", "/runs/a/control", {"command": "continue"})[1]["slug"] == "not-live"
    assert served.ask("DELETE", "/runs/a")[0] == 409
    assert served.get("/runs/a/loss")["points"] == []


def test_the_graph_of_a_dump_is_shown_with_what_can_be_watched(served: Server) -> None:
    nodes = served.get("/runs/a/nodes")["nodes"]
    assert {node["name"]: node["categories"][0] for node in nodes} == {
        X: "tensor",
        WEIGHT: "weight",
        MUL: "tensor",
        LOG: "tensor",
        SUM: "tensor",
        BACK: "gradient",
        STEP: "tensor",
    }
    view = served.get(f"/runs/a/op?name={quote(LOG)}")
    assert view["node"]["sources"][0]["line"] == 7
    assert view["consumers"] == [[0, SUM]]
    assert {node["path"] for node in served.get("/runs/a/graph/level")["nodes"]} == {
        "Default/",
        "Gradients/",
    }


def test_tensors_of_any_step_are_read(served: Server) -> None:
    name = f"op={quote(MUL)}"
    latest = served.get(f"/runs/a/tensor/table?{name}")
    assert (latest["tensor"]["step"], latest["values"]) == (2, [5.0] * 6)
    assert served.get(f"/runs/a/tensor/table?{name}&step=0")["values"] == [3.0] * 6
    assert served.ask("GET", f"/runs/a/tensor/table?{name}&step=9")[0] == 404
    assert served.ask("GET", f"/runs/a/tensor/table?{name}&slot=4")[0] == 404
    _, _, data = served.open("GET", f"/api/v1/runs/a/tensor/file?{name}&step=1")
    np.testing.assert_array_equal(np.load(io.BytesIO(data)), np.full((2, 3), 4.0, np.float32))
    tensors = served.get(f"/runs/a/op/tensors?name={quote(MUL)}")
    assert [(t["io"], t["kept"], t["steps"]) for t in tensors["tensors"]] == [
        ("output", True, [0, 1, 2])
    ]


@pytest.mark.document(240)
def test_steps_and_dumps_are_compared(served: Server) -> None:
    name = f"op={quote(MUL)}"
    steps = served.get(f"/runs/a/tensor/compare?{name}&step=0&with_step=2")
    assert steps["distances"]["max_abs_error"] == 2.0
    peers = served.get(f"/runs/a/tensor/compare?{name}&step=0&with_run=b")
    assert peers["difference"]["values"] == [-5.0] * 6
    status, _ = served.ask("GET", f"/runs/a/tensor/compare?{name}&step=2&with_run=b")
    assert status == 404


def test_statistics_are_a_curve_over_the_steps(served: Server) -> None:
    curve = served.get(f"/runs/a/tensor/curve?op={quote(MUL)}")
    assert [(p["step"], p["statistics"]["avg"]) for p in curve["points"]] == [
        (0, 3.0),
        (1, 4.0),
        (2, 5.0),
    ]


@pytest.mark.document(
    256,
    says="debugging without the running training (offline)",
    how="`sonde view DIR` opens a dump in the same page; `sonde view --check` checks all its steps",
)
def test_watchpoints_are_checked_over_all_steps(served: Server) -> None:
    body = {"name": "bad", "conditions": [{"id": "tensor_overflow"}]}
    served.post("/runs/a/watchpoints", body)
    run = served.post("/runs/a/recheck?wait_seconds=20", {})
    assert (run["recheck"]["running"], run["recheck"]["done"]) == (False, 21)
    hits = served.get("/runs/a/hits")["hits"]
    assert [(hit["step"], hit["op"], hit["part"]) for hit in hits] == [
        (1, LOG, "producer"),
        (1, SUM, "carrier"),
        (1, BACK, "carrier"),
        (1, STEP, "carrier"),
        (2, WEIGHT, "carrier"),
    ]
    assert hits[2]["chain"] == [LOG, SUM, BACK]
    assert hits[4]["chain"] == [LOG, WEIGHT]
    assert hits[4]["why"] == "1 NaN among 6 elements; since step 1"
    assert served.get("/runs/a")["ranks"][0]["hits"] == 5
    level = served.get("/runs/a/graph/level?scope=Default/network-Net")
    assert {node["path"]: node["has_origin"] for node in level["nodes"]}[LOG]
    served.ask("DELETE", "/runs/a/watchpoints/1")
    served.post("/runs/a/recheck?wait_seconds=20", {})
    assert served.get("/runs/a/hits")["total"] == 0


def test_nan_of_a_leaf_is_listed_first(tmp_path: Path) -> None:
    values = dumps.finite(0)
    for op in values:
        values[op][0, 0] = np.nan
    book = check_dump(dumps.write_dump(tmp_path / "d", {0: dumps.outputs(values)}), [draft()])
    assert found(book)[:2] == [(0, X, "producer"), (0, WEIGHT, "producer")]
    assert found(book)[2] == (0, MUL, "carrier")


def test_infinities_put_in_on_purpose_are_no_hits_until_they_do_harm(tmp_path: Path) -> None:
    values = dumps.finite(0)
    values[X][0, 0] = values[MUL][0, 0] = -np.inf
    path = dumps.write_dump(tmp_path / "a", {0: dumps.outputs(values)})
    book = check_dump(path, [draft()])
    assert found(book) == []
    (undecided,) = book.in_order()
    assert undecided.why == (
        "NaN or Inf that reached neither the loss nor an update of weights: "
        "x contained them already"
    )
    assert undecided.count == 2
    named = WatchpointDraft("", (ConditionSpec("tensor_overflow"),), (MUL,))
    assert found(check_dump(path, [named])) == [(0, MUL, "carrier")]
    values[LOG][0, 0] = np.nan
    path = dumps.write_dump(tmp_path / "b", {0: dumps.outputs(values)})
    assert found(check_dump(path, [draft()])) == [
        (0, X, "producer"),
        (0, MUL, "carrier"),
        (0, LOG, "carrier"),
    ]
    values[LOG][0, 0] = 1.0
    values[BACK][0, 0] = np.inf
    values[SUM][0, 0] = values[LOG][0, 0] = np.inf
    path = dumps.write_dump(tmp_path / "c", {0: dumps.outputs(values)})
    assert found(check_dump(path, [draft()]))[0] == (0, X, "producer")


def test_what_changed_is_judged_against_the_step_before(tmp_path: Path) -> None:
    steps = {step: dumps.outputs(dumps.finite(0)) for step in range(3)}
    steps[2][(WEIGHT, "output", 0)][:] = 50.0
    path = dumps.write_dump(tmp_path / "d", steps)
    assert found(check_dump(path, [draft("weight_not_changed")])) == [(1, WEIGHT, "other")]
    large = check_dump(path, [draft("weight_change_too_large", abs_mean_update_ratio_gt=1)])
    assert found(large) == [(2, WEIGHT, "other")]
    undecided = [hit for hit in large.in_order() if hit.verdict == "undecided"]
    assert [(hit.step, hit.why) for hit in undecided] == [
        (0, "there is no value of the step before")
    ]
    again = check_dump(path, [expression("abs_max > 10 * prev.abs_max")])
    assert found(again) == [(2, WEIGHT, "other")]


def test_ranks_are_checked_each(tmp_path: Path) -> None:
    dumps.write_dump(tmp_path / "d", {0: dumps.outputs(dumps.finite(0))}, rank=0)
    dumps.write_dump(tmp_path / "d", {0: dumps.outputs(dumps.finite(9))}, rank=1)
    book = check_dump(tmp_path / "d", [draft("tensor_too_large", max_gt=15)])
    assert {(hit.rank, hit.op) for hit in book.in_order()} == {(1, STEP)}


@pytest.mark.parametrize("rows", [COUNTS, ("max", "min", "l2norm")])
def test_a_dump_of_statistics_alone_is_served_and_checked(
    tmp_path: Path, rows: tuple[str, ...]
) -> None:
    path = dumps.write_dump(tmp_path / "d", bad_steps(), files=False, rows=rows)
    book = check_dump(path, [draft()])
    assert found(book)[:2] == [(1, LOG, "producer"), (1, SUM, "carrier")]
    too_large = check_dump(path, [draft("tensor_too_large", max_gt=8.5)])
    assert found(too_large) == [(2, STEP, "other")]
    zeros = check_dump(path, [draft("tensor_all_zero")])
    assert found(zeros) == []
    assert {hit.why for hit in zeros.in_order()} >= {"the dump has no zero count of it"}
    ranges = draft(
        "tensor_range", range_start_inclusive=0, range_end_inclusive=1, range_percentage_lt=1
    )
    assert all(hit.verdict == "undecided" for hit in check_dump(path, [ranges]).in_order())
    with serving(sources=lambda broker: open_dumps([path], broker)) as server:
        status, problem = server.ask("GET", f"/runs/d/tensor/table?op={quote(MUL)}")
        assert (status, problem["slug"]) == (404, "no-values")
        tensors = server.get(f"/runs/d/op/tensors?name={quote(MUL)}&step=0")["tensors"]
        assert tensors[0]["kept"] is False
        assert tensors[0]["statistics"]["max"] == 3.0
        assert tensors[0]["statistics"]["nan_count"] == 0
        assert tensors[0]["statistics"]["zero_count"] is None
        curve = server.get(f"/runs/d/tensor/curve?op={quote(LOG)}")["points"]
        assert [point["statistics"]["max"] for point in curve] == [4.0, "nan", 6.0]


def test_counts_are_exact_where_there_are_values(tmp_path: Path) -> None:
    path = dumps.write_dump(tmp_path / "d", bad_steps(), rows=("max", "min"))
    hit = check_dump(path, [draft()]).in_order()[0]
    assert hit.why == "1 NaN among 6 elements"
    values = {1: dict(dumps.outputs(dumps.finite(0)))}
    for op in (LOG, SUM, BACK, STEP):
        values[1][(op, "output", 0)][:] = np.nan
    path = dumps.write_dump(tmp_path / "e", values, rows=("max", "min"))
    assert check_dump(path, [draft()]).in_order()[0].why == "6 NaN among 6 elements"


def test_a_constant_that_carries_the_nan_of_an_earlier_step_is_no_origin(tmp_path: Path) -> None:
    leaves = [
        OpNode(name, "Leaf", "Default", "forward", kind, (), (dumps.ROWS,))
        for name, kind in (("loss", "constant"), ("fc.weight.grad", "input"))
    ]
    graph = Graph(0, "Net", (*dumps.GRAPH, *leaves))
    values = [dumps.finite(step) for step in range(4)]
    made = [(step, op) for step in (1, 3) for op in (LOG, SUM, BACK, STEP)]
    for step, op in (*made, (2, "loss"), (2, "fc.weight.grad"), (3, X), (3, MUL)):
        values[step][op] = np.full((2, 3), np.nan, np.float32)
    steps = {step: dumps.outputs(each) for step, each in enumerate(values)}
    book = check_dump(dumps.write_dump(tmp_path / "d", steps, graph=graph), [draft()])
    hits = {(hit.step, hit.op): hit for hit in book.in_order()}
    for name in ("loss", "fc.weight.grad"):
        carried = hits[2, name]
        assert (carried.part, carried.origin, carried.chain) == ("carrier", LOG, (LOG, name))
        assert carried.why == "6 NaN among 6 elements; since step 1"
    assert hits[3, X].part == "producer"  # Data are new in every step.


@pytest.mark.parametrize("unused", [0, 1, 2])
def test_data_of_nan_alone_are_the_only_unused_result_of_the_step_before_or_new(
    unused: int, tmp_path: Path
) -> None:
    names = [f"{dumps.NET}/exp-op{number}" for number in range(unused)]
    added = [dumps.make_op(name, MUL) for name in names]
    values = [dumps.finite(step) for step in range(3)]
    for step, op in (*((1, op) for op in (LOG, SUM, BACK, STEP, *names)), (2, X), (2, MUL)):
        values[step][op] = np.full((2, 3), np.nan, np.float32)
    steps = {step: dumps.outputs(each) for step, each in enumerate(values)}
    graph = Graph(0, "Net", (*dumps.GRAPH, *added))
    book = check_dump(dumps.write_dump(tmp_path / "d", steps, graph=graph), [draft()])
    data = next(hit for hit in book.in_order() if (hit.step, hit.op) == (2, X))
    assert (data.part, data.origin) == (("carrier", names[0]) if unused == 1 else ("producer", X))


def test_a_dump_without_graph_shows_its_tensors(tmp_path: Path) -> None:
    path = dumps.write_dump(tmp_path / "d", {0: dumps.outputs(dumps.finite(0))}, graph=None)
    with serving(sources=lambda broker: open_dumps([path], broker)) as server:
        names = [node["name"] for node in server.get("/runs/d/nodes")["nodes"]]
        assert len(names) == 7
        table = server.get(f"/runs/d/tensor/table?op={quote(names[0])}")
        assert len(table["values"]) == 6
    assert check_dump(path, [draft("tensor_too_large", max_gt=6.5)]).counts(0).total() == 1


def test_a_damaged_file_is_undecided_and_named(tmp_path: Path) -> None:
    path = dumps.write_dump(tmp_path / "d", {0: dumps.outputs(dumps.finite(0))})
    damaged = next((path / "rank_0").rglob("log.*.npy"))
    damaged.write_bytes(damaged.read_bytes()[:-4])
    hits = check_dump(path, [draft()]).in_order()
    assert [(hit.op, hit.verdict) for hit in hits] == [(LOG, "undecided")]
    assert "the file ends early" in hits[0].why
    with serving(sources=lambda broker: open_dumps([path], broker)) as server:
        status, problem = server.ask("GET", f"/runs/d/tensor/table?op={quote(LOG)}")
        assert (status, problem["slug"]) == (400, "npy-file")
        assert (
            server.get(f"/runs/d/op/tensors?name={quote(LOG)}")["tensors"][0]["statistics"] is None
        )


def test_the_nan_of_a_real_mindspore_dump_is_found_where_it_was_made(tmp_path: Path) -> None:
    book = check_dump(MINDSPORE / "nan_log", [draft()])
    first = book.in_order()[0]
    assert first.step == 2
    assert first.op == "Default/network-WithLossCell/_backbone-GateNet/Log-op0"
    assert first.part == "producer"
    assert first.why == "1 NaN among 4 elements"
    assert first.source is not None
    assert "ops.log" in first.source.code
    producers = {hit.op for hit in book.in_order() if hit.part == "producer"}
    assert producers == {first.op}
    assert {hit.origin for hit in book.in_order()} == {first.op}
    assert len(check_dump(MINDSPORE / "lenet_full", [draft()])) == 0


def test_what_is_no_dump_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DumpError, match="no dump"):
        open_dumps([tmp_path], EventBroker())


# ------------------------------------------------------------------ the cache


@pytest.fixture
def eager_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(dump_shelf, "WORTH_KEEPING", 1)
    monkeypatch.setattr(dump_cache, "_SETTLED_SECONDS", -1.0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def listed(path: Path) -> list[tuple[int, str]]:
    shelf = IndexedDump(path)
    found = [
        (directory.step, tensor.op)
        for directory in shelf.steps(0)
        for tensor in shelf.listing(directory).tensors
    ]
    shelf.keep()
    return found


@pytest.mark.usefixtures("eager_cache")
def test_a_dump_is_listed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = dumps.write_dump(tmp_path / "d", bad_steps(), rows=COUNTS)
    before = listed(path)
    first = found(check_dump(path, [draft()]))
    assert len(list((path / ".sonde_index").iterdir())) == 4

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("the cache was not used")

    monkeypatch.setattr("sonde.dump.reader.Dump.tensors", fail)
    monkeypatch.setattr("sonde.dump.reader.Dump.graph", fail)
    assert listed(path) == before
    assert found(check_dump(path, [draft()])) == first


def test_a_small_dump_gets_no_index(tmp_path: Path) -> None:
    path = dumps.write_dump(tmp_path / "d", bad_steps(), rows=COUNTS)
    before = {each.name for each in path.iterdir()}
    listed(path)
    check_dump(path, [draft()])
    assert {each.name for each in path.iterdir()} == before


@pytest.mark.usefixtures("eager_cache")
def test_a_dump_that_changed_is_listed_again(tmp_path: Path) -> None:
    path = dumps.write_dump(tmp_path / "d", {0: dumps.outputs(dumps.finite(0))})
    assert len(listed(path)) == 7
    gone = next((path / "rank_0").rglob("log.*.npy"))
    gone.unlink()
    assert len(listed(path)) == 6
    dumps.write_dump(tmp_path / "d", {1: dumps.outputs(dumps.finite(0))})
    assert len(listed(path)) == 13
    pb = path / "rank_0" / "graphs" / "ms_output_trace_code_graph_0.pb"
    pb.write_bytes(pb.read_bytes())
    os.utime(pb, ns=(time.time_ns(), time.time_ns()))
    assert len(listed(path)) == 13


@pytest.mark.usefixtures("eager_cache")
def test_a_damaged_or_hostile_cache_does_no_harm(tmp_path: Path) -> None:
    path = dumps.write_dump(tmp_path / "d", {0: dumps.outputs(dumps.finite(0))})
    before = listed(path)
    for file in (path / ".sonde_index").iterdir():
        for data in (b"", b"\xc1", file.read_bytes()[:-3], b"\x92\x90\x90"):
            file.write_bytes(data)
            assert listed(path) == before


@pytest.mark.usefixtures("eager_cache")
def test_a_cache_cannot_name_files_elsewhere(tmp_path: Path) -> None:
    path = dumps.write_dump(tmp_path / "d", {0: dumps.outputs(dumps.finite(0))})
    shelf = IndexedDump(path)
    listing = shelf.listing(shelf.steps(0)[0])
    evil = msgspec.structs.replace(listing.tensors[0], file="../../../secret.npy")
    with pytest.raises(DumpError, match="no file name"):
        listing.record(evil)


@pytest.mark.usefixtures("eager_cache")
@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_dump_that_cannot_be_written_has_its_cache_elsewhere(tmp_path: Path) -> None:
    path = dumps.write_dump(tmp_path / "d", {0: dumps.outputs(dumps.finite(0))})
    path.chmod(0o500)
    try:
        listed(path)
        assert list((tmp_path / "cache" / "sonde" / "index").rglob("step-*"))
    finally:
        path.chmod(0o700)


@pytest.mark.usefixtures("eager_cache")
def test_without_any_place_there_is_no_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = dumps.write_dump(tmp_path / "d", {0: dumps.outputs(dumps.finite(0))})
    (path / ".sonde_index").write_text("in the way")
    listed(path)
    assert list((tmp_path / "cache" / "sonde" / "index").rglob("step-*"))
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert len(listed(path)) == 7


@pytest.mark.parametrize("rows", [(), COUNTS])
@pytest.mark.parametrize("files", [True, False])
def test_one_op_is_found_as_the_whole_listing_has_it(
    tmp_path: Path, rows: tuple[str, ...], files: bool
) -> None:
    path = dumps.write_dump(tmp_path / "d", bad_steps(), rows=rows, files=files)
    whole, fast = IndexedDump(path), IndexedDump(path)
    for directory in whole.steps(0):
        listing = whole.listing(directory)
        for node in dumps.GRAPH:
            expected = list(listing.of_op(node.name))
            found = list(fast.listing_for(directory, node.name).of_op(node.name))
            assert repr(found) == repr(expected)  # As texts, because NaN is among the rows.
            assert len(expected) == (1 if rows or files else 0)


def test_ops_whose_names_begin_alike_or_are_mapped_are_not_confused(tmp_path: Path) -> None:
    names = [
        "Default/a",
        "Default/a.b",
        "Default/a.0.0",
        "Default/a,c",
        "Default/a/b",
        "Default/a_b",
    ]
    values = {name: np.full((2, 3), place, np.float32) for place, name in enumerate(names)}
    spec = (dumps.ROWS,)
    nodes = [OpNode(name, "mul", "Default", "forward", "op", (), spec) for name in names]
    graph = Graph(0, "Net", tuple(nodes))
    path = dumps.write_dump(tmp_path / "d", {}, graph=graph)
    directory = path / "rank_0" / "Net" / "0" / "0"
    directory.mkdir(parents=True)
    book, mapping = FileNamer(), ""
    for time_, (name, array) in enumerate(values.items()):
        parts = layout.name_parts("mul", name, "output", 0, "DefaultFormat", "float32")
        found = book.tensor(name, parts[0], 1_700_000_000_000_000 + time_, parts[1])
        mapping += found.mapping or ""
        with (directory / found.name).open("wb") as file:
            np.save(file, array)
    for has_mapping in (True, False):
        if has_mapping:
            (directory / layout.MAPPING).write_text(mapping)
        else:
            (directory / layout.MAPPING).unlink()
            for short in directory.glob("[0-9]*.npy"):
                short.unlink()
        whole, fast = IndexedDump(path), IndexedDump(path)
        step = whole.steps(0)[0]
        for name in names:
            expected = [(each.op, each.file) for each in whole.listing(step).of_op(name)]
            found_fast = fast.listing_for(step, name).of_op(name)
            assert [(each.op, each.file) for each in found_fast] == expected
