"""``Dump`` on dumps by MindSpore, on any path, and on damaged files."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import numpy as np
import pytest
from tests.dump.made import EPOCH, LOG, SCALE, MadeDump, small_dump, small_graph
from tests.dump.sample_dumps import DATA

from sonde.core.errors import DumpError
from sonde.core.graph import Graph, OpNode
from sonde.dump import layout
from sonde.dump.reader import Dump


class TestMindSpore:
    @pytest.mark.document(
        175,
        says="dumps that MindSpore itself wrote",
        how="`sonde show`, `sonde view` and `sonde compare` read them without MindSpore",
    )
    def test_every_file_of_a_real_dump_is_read(self) -> None:
        expected = json.loads((DATA / "mlp_filter/expected.json").read_text())
        dump = Dump(DATA / "mlp_filter")
        assert (dump.writer(), dump.nets(), dump.steps()) == ("mindspore", ("MLP",), (1, 3, 4))
        assert dump.metadata().config == {"device_target": "CPU", "ms_version": "2.10.0"}
        assert len(dump.execution_order(0)) == 31
        for step in (1, 3, 4):
            facts = expected["graphs"]["0"][str(step)]
            records = list(dump.tensors(step=step))
            assert len(records) == facts["npy_files"]
            assert {record.op_type for record in records} == set(facts["op_types"])
            assert sum(record.nbytes + 128 for record in records) == facts["bytes"]
            assert all(record.node is not None for record in records)
        assert dump.check() == ()

    def test_the_first_nan_in_execution_order_is_the_logs_output(self) -> None:
        dump = Dump(DATA / "nan_log")
        bad = [record for record in dump.tensors(step=2) if np.isnan(record.numpy()).any()]
        assert len(bad) == 43
        first = bad[0]
        assert first.key.op == "Default/network-WithLossCell/_backbone-GateNet/Log-op0"
        assert (first.key.io, first.key.slot) == ("output", 0)
        assert np.argwhere(np.isnan(first.numpy())).tolist() == [[1, 0]]
        assert first.source is not None
        assert first.source.code.strip() == "gate = ops.log(x[:, 0:1] + 1.0)"
        (log_input,) = dump.tensors(step=2, op=first.key.op, io="input")
        assert log_input.numpy()[1, 0] == -1.5

    def test_backward_ops_have_the_source_of_their_forward_op(self) -> None:
        graph = Dump(DATA / "nan_log").graph(0)
        backward = [op for op in graph.ops if op.phase == "backward"]
        assert all(op.sources for op in backward)
        assert graph.node("inputs1").kind == "input"

    def test_shapes_come_from_the_graph_where_the_file_has_the_inputs_shape(self) -> None:
        dump = Dump(DATA / "lenet_full/dump/rank_0")
        (flat,) = dump.tensors(op="Flatten-op0", io="output")
        assert flat.header.shape == (4, 8, 2, 2)
        assert flat.shape == flat.numpy().shape == (4, 32)
        (gradient,) = dump.tensors(op="Reshape-op0", io="output")
        assert (gradient.header.shape, gradient.shape) == ((4, 32), (4, 8, 2, 2))
        (next_input,) = (r for r in dump.tensors(op="matmul", io="input") if r.key.slot == 0)
        np.testing.assert_array_equal(next_input.numpy(), flat.numpy())

    def test_ops_numbered_otherwise_in_file_names_are_found_in_the_graph(self) -> None:
        dump = Dump(DATA / "lenet_full")
        records = list(dump.tensors(op="backprop"))
        assert len(records) == 9
        for record in records:
            assert record.path is not None
            assert "-op0." in record.path.name
            assert record.key.op.endswith("-op1")
            assert record.key.op in dump.graph(0)

    def test_the_loss_is_the_recorded_one(self) -> None:
        losses = json.loads((DATA / "lenet_full/losses.json").read_text())["losses"]
        (loss, *_) = Dump(DATA / "lenet_full").tensors(op="sparsesoftmax", io="output")
        assert float(loss.numpy()) == losses[0]

    def test_the_older_naming_without_dtype_is_read(self, tmp_path: Path) -> None:
        directory = tmp_path / "rank_0/Net/0/3"
        directory.mkdir(parents=True)
        name = "Conv2D.Conv2D-op12.0.0.1623124369613540.output.0.DefaultFormat.npy"
        np.save(directory / name, np.ones((2, 2), np.float16))
        dump = Dump(tmp_path)
        assert dump.writer() is None
        (record,) = dump.tensors()
        assert (str(record.key), record.op_type) == ("Conv2D-op12:output.0@3", "Conv2D")
        assert (record.dtype, record.shape, record.node) == ("float16", (2, 2), None)

    def test_a_repeated_op_is_one_run_after_the_other(self, tmp_path: Path) -> None:
        directory = tmp_path / "rank_0/Net/0/0"
        directory.mkdir(parents=True)
        for time, (op, place) in enumerate(
            [
                ("a", "input.0"),
                ("a", "output.0"),
                ("a", "input.0"),
                ("a", "output.0"),
                ("b", "input.0"),
            ]
        ):
            name = f"Add.{op}.0.0.{EPOCH + time}.{place}.DefaultFormat.Float32.npy"
            np.save(directory / name, np.zeros(1, np.float32))
        assert [(r.key.order, r.key.op, r.key.io) for r in Dump(tmp_path).tensors()] == [
            (0, "a", "input"),
            (0, "a", "output"),
            (1, "a", "input"),
            (1, "a", "output"),
            (2, "b", "input"),
        ]


class TestPaths:
    def test_a_directory_above_the_dump_is_accepted(self, tmp_path: Path) -> None:
        small_dump(tmp_path / "runs/monday")
        assert Dump(tmp_path).path == tmp_path / "runs/monday"
        assert Dump(str(tmp_path / "runs")).steps() == (0, 5)

    def test_the_directory_of_a_rank_is_accepted(self, tmp_path: Path) -> None:
        made = small_dump(tmp_path)
        assert Dump(made.rank.root).ranks == (0,)

    def test_the_directory_of_a_rank_under_another_name_is_accepted(self, tmp_path: Path) -> None:
        made = small_dump(tmp_path)
        made.rank.root.rename(tmp_path / "saved")
        assert Dump(tmp_path / "saved").steps() == (0, 5)

    def test_several_dumps_are_not_guessed_between(self, tmp_path: Path) -> None:
        small_dump(tmp_path / "a")
        small_dump(tmp_path / "b")
        with pytest.raises(DumpError, match="holds 2 dumps: a, b; give one of them"):
            Dump(tmp_path)

    @pytest.mark.parametrize(
        ("path", "message"),
        [
            ("nowhere", "nowhere does not exist"),
            ("file", "file is not a directory"),
            ("empty", "holds no dump"),
            ("d/rank_0/Net/0/5", "is a part of the dump .*/d; give that directory"),
        ],
    )
    def test_a_wrong_path_is_reported(self, tmp_path: Path, path: str, message: str) -> None:
        small_dump(tmp_path / "d")
        (tmp_path / "file").touch()
        (tmp_path / "empty").mkdir()
        with pytest.raises(DumpError, match=message) as caught:
            Dump(tmp_path / path)
        assert caught.value.slug == "no-dump"

    def test_a_net_may_be_called_graphs(self, tmp_path: Path) -> None:
        made = MadeDump(tmp_path, net="graphs")
        made.add_graph(small_graph())
        made.add_tensor(made.step(0), small_graph().node(LOG), "output.0", np.zeros(4, np.float32))
        dump = Dump(tmp_path)
        assert (dump.nets(), dump.steps(), len(dump.graphs())) == (("graphs",), (0,), 1)


class TestDamage:
    def test_an_unfinished_step_is_read_with_the_graph_that_fits(self, tmp_path: Path) -> None:
        made = small_dump(tmp_path)
        other = Graph(1, "Eval", (OpNode("Default/eval-op1", "eval", "Default", "forward"),))
        made.add_graph(other)
        directory = made.step(6, None)
        made.add_tensor(directory, small_graph().node(LOG), "output.0", np.ones(4, np.float32))
        (directory / ".mul.x.0.0.1.output.0.F.Float32.npy.partial").write_bytes(b"half")
        dump = Dump(tmp_path)
        assert dump.steps() == (0, 5, 6)
        (record,) = dump.tensors(step=6)
        assert (record.key.op, record.graph_id) == (LOG, None)
        assert [problem.message for problem in dump.problems] == [
            "1 file was being written when the dump ended"
        ]

    def test_a_process_killed_in_its_first_step_leaves_a_dump(self, tmp_path: Path) -> None:
        made, graph = MadeDump(tmp_path), small_graph()
        directory = made.step(0, None)
        for order, name in enumerate((SCALE, LOG)):
            made.add_tensor(
                directory, graph.node(name), "output.0", np.ones(4), timestamp=EPOCH - order
            )
        dump = Dump(tmp_path)
        assert (dump.graphs(), dump.writer()) == ((), "sonde")
        assert [r.key.op for r in dump.tensors()] == [
            layout.escape(LOG),
            layout.escape(SCALE),
        ]

    def test_a_process_killed_before_the_first_graph_of_a_net_leaves_no_problem(
        self, tmp_path: Path
    ) -> None:
        made = small_dump(tmp_path)
        (made.rank.root / "Late").mkdir()
        dump = Dump(tmp_path)
        assert (dump.check(), dump.steps()) == ((), (0, 5))
        assert "Late" not in dump.nets()

    def test_a_damaged_graph_leaves_the_tensors(self, tmp_path: Path) -> None:
        made = small_dump(tmp_path)
        path = made.rank.graph_pb(0)
        path.write_bytes(path.read_bytes()[:100])
        dump = Dump(tmp_path)
        assert len(list(dump.tensors())) == 18
        assert dump.graphs() == ()
        assert len(dump.problems) == 1
        assert str(dump.problems[0]).startswith(f"{path}: not a graph file: field 4 says")
        with pytest.raises(DumpError, match="not a graph file"):
            dump.graph(0)
        with pytest.raises(DumpError, match=r"no graph 3; there are \[0\]"):
            dump.graph(3)

    def test_a_damaged_tensor_is_found_by_the_check_and_when_it_is_read(
        self, tmp_path: Path
    ) -> None:
        small_dump(tmp_path)
        (record,) = Dump(tmp_path).tensors(step=0, op=LOG, io="output")
        assert record.path is not None
        os.truncate(record.path, 130)
        dump = Dump(tmp_path)
        assert dump.problems == ()
        (record,) = dump.tensors(step=0, op=LOG, io="output")
        with pytest.raises(DumpError, match="byte 130: the file ends early"):
            record.numpy()
        (problem,) = dump.check()
        assert problem.path == record.path

    def test_foreign_files_are_listed_and_ignored(self, tmp_path: Path) -> None:
        made = small_dump(tmp_path)
        foreign = [
            made.rank.root / "notes.txt",
            made.rank.root / "Net/readme",
            made.rank.root / "Net/0/5/photo.jpg",
            made.rank.root / "Net/0/5/17.npy",
            made.rank.graphs / "graph.dot",
        ]
        for path in foreign:
            path.write_bytes(b"x")
        (made.rank.root / "other/mine").mkdir(parents=True)
        dump = Dump(tmp_path)
        assert len(list(dump.tensors())) == 18
        assert {problem.path for problem in dump.problems} == {*foreign, made.rank.root / "other"}

    def test_a_damaged_statistic_row_is_a_problem(self, tmp_path: Path) -> None:
        made, graph = small_dump(tmp_path), small_graph()
        made.add_rows(made.step(0), ["max"], [(graph.node(LOG), "output.0", ["one"])])
        dump = Dump(tmp_path)
        assert dump.statistics() == ()
        (problem,) = dump.problems
        assert problem.message == "line 2: could not convert string to float: 'one'"

    def test_whatever_is_damaged_the_rest_is_read(self, tmp_path: Path) -> None:
        made, graph = small_dump(tmp_path / "whole"), small_graph()
        rows = [(node, "output.0", ["1"]) for node in graph.ops]
        made.add_rows(made.step(0), ["max"], rows)
        made.add_overflow(made.step(5), [{"op": LOG, "role": "producer"}])
        (made.step(0) / layout.MAPPING).write_text("0.npy,mm.a.0.0.1.input.0.F.Float32.npy\n")
        files = sorted(path for path in (tmp_path / "whole").rglob("*") if path.is_file())
        whole = {path: path.read_bytes() for path in files}
        rng = random.Random(11)
        for _ in range(60):
            for path in rng.sample(files, 6):
                data = bytearray(whole[path])
                for _ in range(rng.randrange(1, 20)):
                    if data:
                        data[rng.randrange(len(data))] = rng.randrange(256)
                path.write_bytes(data[: rng.choice([len(data), rng.randrange(len(data) + 1)])])
            dump = Dump(tmp_path)
            assert len(list(dump.tensors())) >= 18
            dump.check()
            dump.statistics()
            dump.metadata()
            dump.execution_order(0) if dump.graphs() else None
            assert len(list(dump.overflow())) <= 1

    def test_damaged_metadata_is_a_problem(self, tmp_path: Path) -> None:
        made = small_dump(tmp_path)
        made.rank.metadata_config.write_text("[" * 100_000)
        dump = Dump(tmp_path)
        assert dump.metadata().config == {}
        assert dump.metadata().dump_config == {"common_dump_settings": {}}
        assert len(dump.problems) == 1

    def test_a_directory_that_may_not_be_listed_is_a_problem(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        directory = small_dump(tmp_path).step(0)
        listdir = os.listdir

        def refuse(path: Path) -> list[str]:
            if path == directory:
                raise PermissionError(13, "Permission denied", str(path))
            return listdir(path)

        monkeypatch.setattr(os, "listdir", refuse)
        dump = Dump(tmp_path)
        assert len(list(dump.tensors())) == 9
        assert [str(problem) for problem in dump.problems] == [
            f"{directory}: cannot be listed: Permission denied"
        ]
