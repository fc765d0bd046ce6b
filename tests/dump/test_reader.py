"""``Dump`` on dumps by Sonde, by MindSpore, of killed runs, and damaged ones."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.dump.made import EPOCH, GRADIENT, LOG, SCALE, MadeDump, small_dump, small_graph
from tests.dump.sample_dumps import keys

from sonde.core.errors import DumpError
from sonde.core.graph import Graph, OpNode, Source, TensorSpec
from sonde.core.keys import TensorKey
from sonde.core.selection import parse_steps
from sonde.dump import layout
from sonde.dump.reader import Dump


class TestOurOwn:
    def test_opens_with_graphs_steps_and_metadata(self, tmp_path: Path) -> None:
        small_dump(tmp_path)
        dump = Dump(tmp_path)
        assert (dump.path, dump.ranks, dump.nets()) == (tmp_path, (0,), ("Net",))
        assert (dump.graph_ids(), dump.steps(), dump.writer()) == ((0,), (0, 5), "sonde")
        assert dump.graphs() == (small_graph(),)
        assert dump.graph(0) == small_graph()
        assert dump.execution_order(0) == (LOG, SCALE, GRADIENT)
        assert dump.metadata().config == {"sonde_version": "0.1.0"}
        assert dump.metadata().dump_config == {"common_dump_settings": {}}
        assert dump.problems == dump.check() == ()

    def test_tensors_come_in_execution_order(self, tmp_path: Path) -> None:
        small_dump(tmp_path)
        assert keys(Dump(tmp_path), step=5) == [
            "input0:output.0@5",
            f"{LOG}:input.0@5",
            f"{LOG}:output.0@5",
            "scale.weight:output.0@5",
            f"{SCALE}:input.0@5",
            f"{SCALE}:input.1@5",
            f"{SCALE}:output.0@5",
            f"{GRADIENT}:input.0@5",
            f"{GRADIENT}:output.0@5",
        ]

    def test_the_order_in_a_key_is_the_place_in_the_graph(self, tmp_path: Path) -> None:
        small_dump(tmp_path)
        (record,) = Dump(tmp_path).tensors(step=0, op=SCALE, io="output")
        assert record.key == TensorKey(0, 3, SCALE, "output", 0)

    def test_a_record_has_values_and_what_is_known_of_them(self, tmp_path: Path) -> None:
        small_dump(tmp_path)
        (record,) = Dump(tmp_path).tensors(step=5, op=LOG, io="output")
        assert (record.rank, record.net, record.graph_id) == (0, "Net", 0)
        assert (record.op_type, record.dtype, record.shape) == ("log", "float32", (4,))
        assert (record.nbytes, record.timestamp) == (16, EPOCH + 6)
        assert record.node == small_graph().node(LOG)
        assert str(record.source) == "/home/ada/net.py:12"
        assert np.isnan(record.numpy()).tolist() == [False, True, False, False]

    @pytest.mark.parametrize(
        ("selection", "count"),
        [
            ({}, 18),
            ({"step": 5}, 9),
            ({"step": parse_steps("0|3-4")}, 9),
            ({"io": "input"}, 8),
            ({"op": "mul"}, 10),
            ({"op": "weight"}, 2),
            ({"op": LOG}, 4),
            ({"op": "name-regex(Gradients/.*)"}, 4),
            ({"op": "mul", "io": "output", "step": 0}, 2),
            ({"graph_id": 0}, 18),
            ({"graph_id": 1}, 0),
            ({"step": 1}, 0),
        ],
    )
    def test_a_selection_yields_what_it_names(
        self, tmp_path: Path, selection: dict[str, object], count: int
    ) -> None:
        small_dump(tmp_path)
        assert len(keys(Dump(tmp_path), **selection)) == count

    def test_ranks_are_read_side_by_side(self, tmp_path: Path) -> None:
        small_dump(tmp_path / "a")
        shutil.copytree(tmp_path / "a/rank_0", tmp_path / "a/rank_12")
        dump = Dump(tmp_path / "a")
        assert dump.ranks == (0, 12)
        assert len(keys(dump)) == 36
        assert (dump.nets(), dump.graph_ids(), len(dump.graphs())) == (("Net",), (0,), 1)
        assert {record.rank for record in dump.tensors(rank=12)} == {12}
        with pytest.raises(DumpError, match=r"no rank 1; there are \[0, 12\]"):
            dump.steps(rank=1)

    def test_a_step_may_have_several_graphs(self, tmp_path: Path) -> None:
        made = small_dump(tmp_path)
        made.add_graph(small_graph(7), (5,))
        directory = made.step(5, 7)
        made.add_tensor(directory, small_graph().node(LOG), "output.0", np.zeros(4, np.float32))
        dump = Dump(tmp_path)
        assert dump.graph_ids() == (0, 7)
        assert (dump.steps(graph_id=7), dump.steps()) == ((5,), (0, 5))
        assert [record.graph_id for record in dump.tensors(step=5, op=LOG, io="output")] == [0, 7]

    def test_widened_types_keep_their_names(self, tmp_path: Path) -> None:
        made, node = MadeDump(tmp_path), small_graph().node(LOG)
        for dtype, stored, size in (
            ("bfloat16", np.float32, 2),
            ("float8_e5m2", np.float32, 1),
            ("int4", np.int8, 1),
        ):
            made.add_tensor(made.step(0), node, "output.0", np.ones(4, stored), dtype=dtype)
            (record,) = (r for r in Dump(tmp_path).tensors() if r.dtype == dtype)
            assert record.nbytes == 4 * size
            assert record.numpy().dtype == stored

    def test_long_and_clashing_names_are_not_lost(self, tmp_path: Path) -> None:
        spec = (TensorSpec("float32", (1,)),)
        names = ["Default/" + "x" * 300 + "/mm-op1", "Default/a/b", "Default/a_b"]
        graph = Graph(
            0,
            "g",
            tuple(OpNode(name, "mm", "", "forward", "op", (), spec) for name in names),
        )
        made = MadeDump(tmp_path)
        made.add_graph(graph)
        for value, node in enumerate(graph):
            array = np.array([value], np.float32)
            made.add_tensor(made.step(0), node, "output.0", array, timestamp=EPOCH + value)
        dump = Dump(tmp_path)
        assert [(r.key.op, float(r.numpy()[0])) for r in dump.tensors()] == [
            (name, float(value)) for value, name in enumerate(names)
        ]
        assert dump.problems == ()

    @pytest.mark.parametrize("dumped", [["Default/a/b"], ["Default/a_b"]])
    def test_ops_with_the_same_escaped_name_are_distinguished_by_timestamp(
        self, tmp_path: Path, dumped: list[str]
    ) -> None:
        names = ["Default/first", "Default/a/b", "Default/middle", "Default/a_b", "Default/last"]
        graph = Graph(0, "g", tuple(OpNode(name, "mm", "", "forward") for name in names))
        made = MadeDump(tmp_path)
        made.add_graph(graph)
        for time, node in enumerate(graph):
            if node.name in dumped or "_" not in layout.escape(node.name).removeprefix("Default_"):
                array = np.array([time], np.float32)
                made.add_tensor(made.step(0), node, "output.0", array, timestamp=EPOCH + time)
        dump = Dump(tmp_path)
        found = {record.key.op: float(record.numpy()[0]) for record in dump.tensors()}
        assert set(found) == {"Default/first", "Default/middle", "Default/last", *dumped}
        assert all(names[int(value)] == name for name, value in found.items())
        assert not (made.step(0) / layout.MAPPING).exists()

    def test_ops_that_cannot_be_distinguished_are_not_guessed(self, tmp_path: Path) -> None:
        names = ["Default/a/b", "Default/a_b"]
        graph = Graph(0, "g", tuple(OpNode(name, "mm", "", "forward") for name in names))
        made = MadeDump(tmp_path)
        made.add_graph(graph)
        made.add_tensor(made.step(0), graph.nodes[1], "output.0", np.zeros(1, np.float32))
        dump = Dump(tmp_path)
        (record,) = dump.tensors()
        assert (record.key.op, record.node) == ("Default_a_b?", None)
        (problem,) = dump.problems
        assert problem.path.is_file()
        assert problem.message == "may belong to Default/a/b, Default/a_b"

    def test_constants_and_arguments_are_found(self, tmp_path: Path) -> None:
        made = small_dump(tmp_path)
        constants = made.rank.constants_dir("Net", 0)
        constants.mkdir()
        np.save(constants / layout.constant_file_name(2, EPOCH, "Int64"), np.array(7))
        node = small_graph().node(SCALE)
        name = layout.kernel_args_file_name(node.type, node.name)
        (made.step(0) / name).write_text('{"alpha": "1"}')
        dump = Dump(tmp_path)
        (constant,) = dump.constants()
        assert (constant.key.op, constant.dtype, int(constant.numpy())) == ("data-2", "int64", 7)
        assert dump.arguments(node, 0) == {"alpha": "1"}
        assert dump.arguments(node, 5) is None
        assert dump.problems == ()


class TestStatistics:
    def test_a_dump_of_rows_alone_is_a_dump(self, tmp_path: Path) -> None:
        made, graph = MadeDump(tmp_path), small_graph()
        made.add_graph(graph)
        made.add_rows(
            made.step(0),
            ["max", "nan count"],
            [
                (graph.node(SCALE), "output.0", ["nan", "2"]),
                (graph.node(LOG), "input.0", ["3", "0"]),
            ],
        )
        dump = Dump(tmp_path)
        log, scale = dump.tensors()
        assert (log.key.op, log.key.order, log.shape, log.nbytes) == (LOG, 1, (4,), 16)
        assert (scale.key.op, scale.key.order) == (SCALE, 3)
        assert scale.row is not None
        assert scale.row.values["nan count"] == 2
        assert [row.values["nan count"] for row in dump.statistics(0)] == [0, 2]
        with pytest.raises(DumpError, match="has only statistics of this tensor"):
            scale.numpy()

    def test_rows_join_the_files_of_their_tensors(self, tmp_path: Path) -> None:
        made, graph = small_dump(tmp_path), small_graph()
        made.add_rows(
            made.step(0),
            ["max"],
            [(graph.node(LOG), "output.0", ["1.5"]), (graph.node(SCALE), "input.0", ["2.5"])],
        )
        dump = Dump(tmp_path)
        records = list(dump.tensors(step=0))
        assert len(records) == 9
        joined = {str(r.key): r.row.values["max"] for r in records if r.row is not None}
        assert joined == {f"{LOG}:output.0@0": 1.5, f"{SCALE}:input.0@0": 2.5}

    def test_overflow_is_read_per_step(self, tmp_path: Path) -> None:
        made = small_dump(tmp_path)
        made.add_overflow(
            made.step(5),
            [
                {
                    "op": LOG,
                    "role": "producer",
                    "phase": "forward",
                    "source": {
                        "file": "/home/ada/net.py",
                        "line": 12,
                        "function": "forward",
                        "code": "x.log()",
                    },
                    "inputs": [{"min": -2}],
                    "outputs": [{"nan": 1}],
                    "from": None,
                },
                {"op": SCALE, "role": "carrier", "from": LOG, "from_step": 4},
            ],
        )
        ((directory, (producer, carrier)),) = Dump(tmp_path).overflow()
        assert directory.step == 5
        assert (producer.op, producer.role, producer.inputs) == (LOG, "producer", ({"min": -2},))
        assert producer.source == Source("/home/ada/net.py", 12, "forward", "x.log()")
        assert (carrier.role, carrier.origin, carrier.source) == ("carrier", LOG, None)
        assert (carrier.origin_step, producer.by_argument) == (4, None)

    def test_a_damaged_overflow_file_is_a_problem(self, tmp_path: Path) -> None:
        made = small_dump(tmp_path)
        (made.step(0) / layout.OVERFLOW).write_text('[{"op": "a", "role": "prod')
        (made.step(5) / layout.OVERFLOW).write_text('[{"op": "a", "role": "culprit"}]')
        dump = Dump(tmp_path)
        assert list(dump.overflow()) == []
        assert [problem.message for problem in dump.problems] == [
            "not JSON: Unterminated string starting at: line 1 column 22 (char 21)",
            "entry 0 is not an op with a role",
        ]
