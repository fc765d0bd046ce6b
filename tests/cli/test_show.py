"""``sonde show``: text, JSON and error messages."""

from __future__ import annotations

import json
import math
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.dump.made import GRADIENT, LOG, SCALE, MadeDump, small_dump, small_graph
from tests.trends.made_stores import MadeTraining, write_training

from sonde.cli.main import main
from sonde.cli.show_format import steps_text
from sonde.core.errors import DumpError
from sonde.core.graph import Graph, OpNode, TensorSpec
from sonde.core.text.number_text import size_text
from sonde.dump import layout
from sonde.dump.reader import Dump
from sonde.dump.statistic_store import engine

NAN_LOG = Path(__file__).parents[1] / "dump/data/nan_log"
NET = "Default/network-WithLossCell/_backbone-GateNet"


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


class Shown:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: object) -> str:
        assert main(["show", *map(str, arguments)]) == 0
        out, err = self._capsys.readouterr()
        assert err == ""
        return out

    def json(self, *arguments: object) -> dict[str, Any]:
        def refuse(constant: str) -> None:
            raise AssertionError(f"{constant} is not JSON")

        found = json.loads(self(*arguments, "--json"), parse_constant=refuse)
        assert isinstance(found, dict)
        return found

    def fails(self, *arguments: object) -> str:
        assert main(["show", *map(str, arguments)]) == 2
        out, err = self._capsys.readouterr()
        assert out == ""
        assert err.count("\n") == 1
        return err


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Shown:
    return Shown(capsys)


class TestOverview:
    def test_graphs_steps_ops_and_sizes(
        self, tmp_path: Path, shown: Shown, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", "300")
        small_dump(tmp_path)
        lines = [line.rstrip() for line in shown(tmp_path).splitlines()]
        assert lines[0] == f"{tmp_path}: Net, by Sonde 0.1.0"
        start = lines.index("rank   graph   steps   ops   tensors      size")
        # 18 files of 16 bytes and a header of 128.
        assert lines[start + 1] == "   0       0   0|5       3        18   2.59 kB"
        assert "ops of graph 0   forward   backward   optimizer" in lines
        assert "mul                    1          1" in lines

    def test_the_ops_are_those_of_the_graph_with_most_steps(
        self, tmp_path: Path, shown: Shown
    ) -> None:
        made = small_dump(tmp_path)
        made.add_graph(small_graph(7), (6,))
        made.step(6, 7)
        text = shown(tmp_path)
        assert "ops of graph 0" in text
        assert "ops of graph 7" not in text

    def test_a_file_with_two_names_counts_once(self, tmp_path: Path, shown: Shown) -> None:
        made = MadeDump(tmp_path)
        graph = small_graph()
        made.add_graph(graph)
        directory = made.step(0)
        first = made.add_tensor(directory, graph.node(LOG), "output.0", np.zeros(4, np.float32))
        os.link(first, directory / first.name.replace(".output.", ".input."))
        (step,) = shown.json(tmp_path)["steps"]
        assert step == {
            "rank": 0,
            "net": "Net",
            "graph": 0,
            "step": 0,
            "tensors": 2,
            "bytes": 144,
        }

    def test_a_real_dump_by_mindspore(self, shown: Shown) -> None:
        text = shown(NAN_LOG)
        assert "GateNet, by MindSpore 2.10.0" in text.replace("\n", " ")
        assert "   0       0   2        23       119   22 kB" in text

    def test_the_remains_of_a_killed_run_are_shown(
        self, tmp_path: Path, shown: Shown, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", "300")
        made = small_dump(tmp_path)
        directory = made.step(6, None)
        made.add_tensor(directory, small_graph().node(LOG), "output.0", np.ones(4, np.float32))
        (made.rank.root / "stray.txt").touch()
        text = shown(tmp_path)
        assert "unfinished" in text
        assert "1 problem:" in text
        assert f"{made.rank.root}/stray.txt: is not part of a dump" in text

    def test_an_empty_dump(self, tmp_path: Path, shown: Shown) -> None:
        MadeDump(tmp_path)
        assert "No step was dumped." in shown(tmp_path)

    def test_a_run_without_nan_and_inf(self, tmp_path: Path, shown: Shown) -> None:
        made = MadeDump(tmp_path)
        (made.rank.root / layout.OVERFLOW).write_text('{"verdict": "finite"}')
        text = shown(tmp_path)
        assert "Rank 0 was searched for NaN and Inf: all observed values were finite.\n" in text

    def test_graphs_without_values(
        self, tmp_path: Path, shown: Shown, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", "300")
        made = small_dump(tmp_path / "whole")
        graphs = tmp_path / "graphs" / "rank_0" / "graphs"
        shutil.copytree(made.rank.graphs, graphs)
        text = shown(tmp_path / "graphs")
        assert text.startswith(f"{tmp_path / 'graphs'}: Net, by ")
        assert "Graphs only, no values: 3 ops in graph 0\n" in text
        assert f"sonde view {tmp_path / 'graphs'}" in text
        assert "No step was dumped" not in text
        for words in (["--op", "log"], ["--step", "0"], ["--io", "input"], ["--values"]):
            error = shown.fails(tmp_path / "graphs", *words)
            assert error.endswith(": the dump has graphs only: no values to show [no-values]\n")

    def test_values_that_cannot_be_read_are_not_said_to_be_missing(
        self, tmp_path: Path, shown: Shown, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Statistics in Parquet files, on a machine without DuckDB."""
        monkeypatch.setenv("COLUMNS", "300")
        made = MadeDump(tmp_path)
        made.add_graph(small_graph())
        write_training(MadeTraining(layers=1, steps=2), tmp_path)

        def missing() -> object:
            raise DumpError("statistics need DuckDB", slug="extra-missing")

        monkeypatch.setattr(engine, "shared_connection", missing)
        text = shown(tmp_path)
        assert "The values cannot be read; graphs: 3 ops in graph 0\n" in text
        assert "statistics need DuckDB" in text
        error = shown.fails(tmp_path, "--op", "log")
        assert error.endswith(": statistics need DuckDB: no values to show [no-values]\n")

    def test_the_directory_of_a_guard_has_its_own_path(self, tmp_path: Path) -> None:
        """It has no rank_N in it, but signals; its name distinguishes it from other runs."""
        (tmp_path / "run" / "statistics" / "rank_0").mkdir(parents=True)
        assert Dump(tmp_path / "run").path == tmp_path / "run"

    def test_as_json(self, tmp_path: Path, shown: Shown) -> None:
        small_dump(tmp_path)
        found = shown.json(tmp_path)
        assert found["path"] == str(tmp_path)
        assert found["writer"] == "sonde"
        assert found["metadata"] == {"sonde_version": "0.1.0"}
        assert (found["ranks"], found["nets"]) == ([0], ["Net"])
        assert found["graphs"] == [{"id": 0, "name": "Net", "ops": 3, "leaves": 2, "steps": [0, 5]}]
        assert [step["step"] for step in found["steps"]] == [0, 5]
        assert found["problems"] == []


class TestTensors:
    def test_an_op_with_its_line_and_statistics(self, tmp_path: Path, shown: Shown) -> None:
        small_dump(tmp_path)
        lines = [line.rstrip() for line in shown(tmp_path, "--op", LOG, "--step", 0).splitlines()]
        log = np.log(np.arange(1, 5, dtype=np.float32)).astype(np.float64)
        assert lines == [
            LOG,
            "    step 0, forward  /home/ada/net.py:12  return self.scale(x.log())",
            "    input.0   float32[4]  min 1  max 4      mean 2.5     std 1.118",
            f"    output.0  float32[4]  min 0  max {log.max():.4g}  mean {log.mean():.4g}"
            f"  std {log.std():.4g}",
            "      1 zero (25%)",
            "",
        ]

    def test_nan_is_highlighted_with_the_finite_range(self, tmp_path: Path, shown: Shown) -> None:
        small_dump(tmp_path)
        text = shown(tmp_path, "--op", LOG, "--step", 5, "--io", "output")
        assert "min nan  max nan  mean nan  std nan" in text
        assert "1 nan  finite 0 to 1.386  1 zero (25%)" in text

    def test_ops_come_in_execution_order(self, tmp_path: Path, shown: Shown) -> None:
        small_dump(tmp_path)
        names = [line for line in shown(tmp_path, "--step", 0).splitlines() if line[:1].strip()]
        assert names == ["input0", LOG, "scale.weight", SCALE, GRADIENT]

    @pytest.mark.parametrize("width", ["80", "40"])
    def test_long_names_keep_their_end(
        self, tmp_path: Path, shown: Shown, monkeypatch: pytest.MonkeyPatch, width: str
    ) -> None:
        name = "Default/" + "/".join(f"layer{number}-Block" for number in range(30)) + "/mm-op7"
        node = OpNode(name, "mm", "", "forward", "op", (), (TensorSpec("float32", (1,)),))
        made = MadeDump(tmp_path)
        made.add_graph(Graph(0, "g", (node,)))
        made.add_tensor(made.step(0), node, "output.0", np.ones((1,) * 9, np.float32))
        monkeypatch.setenv("COLUMNS", width)
        text = shown(tmp_path, "--step", 0)
        assert name in text.replace("\n", "")
        assert max(map(len, text.splitlines())) <= int(width)
        assert "float32[1,1,1,1,1,1,1,1,1]" in "".join(text.split())

    def test_a_pipe_gets_whole_lines(
        self, tmp_path: Path, shown: Shown, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("COLUMNS")
        assert f"{NET}/Log-op0\n" in shown(NAN_LOG, "--op", "log")

    def test_a_part_of_the_scope_is_sufficient(self, tmp_path: Path, shown: Shown) -> None:
        small_dump(tmp_path)
        found = shown.json(tmp_path, "--op", "scale-Scale/", "--step", 0)
        assert {tensor["op"] for tensor in found["tensors"]} == {SCALE, GRADIENT}

    def test_a_word_is_a_part_of_the_type_whatever_its_case(
        self, tmp_path: Path, shown: Shown
    ) -> None:
        small_dump(tmp_path)
        found = shown.json(tmp_path, "--op", "LOG", "--step", 0)
        assert {tensor["op"] for tensor in found["tensors"]} == {LOG}

    def test_a_limit_says_what_is_left_out(self, tmp_path: Path, shown: Shown) -> None:
        small_dump(tmp_path)
        assert "and 16 more tensors; --limit 0 shows all" in shown(
            tmp_path, "--step", "0|5", "--limit", 2
        )
        assert "more tensors" not in shown(tmp_path, "--step", "0|5", "--limit", 0)

    def test_values_are_printed_on_request(self, tmp_path: Path, shown: Shown) -> None:
        small_dump(tmp_path)
        text = shown(tmp_path, "--op", "scale.weight", "--step", 0, "--values")
        assert "      [1. 2. 3. 4.]" in text

    def test_one_rank_of_two(self, tmp_path: Path, shown: Shown) -> None:
        small_dump(tmp_path)
        other = MadeDump(tmp_path, rank=1)
        other.add_graph(small_graph())
        other.add_tensor(other.step(0), small_graph().node(LOG), "output.0", np.ones(4, np.float32))
        assert "step 0, rank 1, forward" in shown(tmp_path, "--rank", 1, "--step", 0)
        assert len(shown.json(tmp_path, "--rank", 1, "--step", 0)["tensors"]) == 1

    def test_a_damaged_file_is_reported_at_its_place(self, tmp_path: Path, shown: Shown) -> None:
        made, node = MadeDump(tmp_path), small_graph().node(LOG)
        path = made.add_tensor(made.step(0), node, "output.0", np.ones(4, np.float32))
        os.truncate(path, 140)
        text = " ".join(shown(tmp_path, "--step", 0).split())
        assert "output.0 damaged: byte 140: the file ends early" in text
        (tensor,) = shown.json(tmp_path, "--step", 0)["tensors"]
        assert (tensor["shape"], tensor["statistics"]) == (None, {})
        assert tensor["problem"].startswith("byte 140: the file ends early")

    def test_an_empty_tensor_has_no_numbers(self, tmp_path: Path, shown: Shown) -> None:
        made, node = MadeDump(tmp_path), small_graph().node(LOG)
        made.add_tensor(made.step(0), node, "output.0", np.zeros((0, 3), np.float32))
        assert "    output.0  float32[0,3]  empty\n" in shown(tmp_path, "--step", 0)

    def test_complex_tensors_are_listed_without_statistics(
        self, tmp_path: Path, shown: Shown
    ) -> None:
        made, node = MadeDump(tmp_path), small_graph().node(LOG)
        array = np.ones(4, np.complex64)
        made.add_tensor(made.step(0), node, "output.0", array, dtype="complex64")
        assert "output.0  complex64[4]" in shown(tmp_path, "--step", 0)


class TestJson:
    def test_a_tensor_is_shown_with_all_its_data(self, tmp_path: Path, shown: Shown) -> None:
        small_dump(tmp_path)
        found = shown.json(tmp_path, "--op", LOG, "--step", 5, "--io", "output")
        (tensor,) = found["tensors"]
        statistics = tensor.pop("statistics")
        file = Path(tensor.pop("file"))
        assert file.is_file()
        assert layout.parse_tensor_file_name(file.name) is not None
        assert tensor == {
            "rank": 0,
            "net": "Net",
            "graph": 0,
            "step": 5,
            "order": 1,
            "op": LOG,
            "type": "log",
            "phase": "forward",
            "io": "output",
            "slot": 0,
            "dtype": "float32",
            "shape": [4],
            "bytes": 16,
            "source": {
                "file": "/home/ada/net.py",
                "line": 12,
                "function": "forward",
                "code": "        return self.scale(x.log())",
            },
            "problem": None,
        }
        assert statistics["max"] == statistics["min"] == statistics["avg"] == "NaN"
        assert (statistics["count"], statistics["nan count"], statistics["zero count"]) == (4, 1, 1)
        assert statistics["finite max"] == pytest.approx(math.log(4), rel=1e-6)
        assert found["more"] == 0

    def test_infinities_are_text(self, tmp_path: Path, shown: Shown) -> None:
        made, node = MadeDump(tmp_path), small_graph().node(LOG)
        array = np.array([np.inf, -np.inf, 1, 2], np.float32)
        made.add_tensor(made.step(0), node, "output.0", array)
        (tensor,) = shown.json(tmp_path, "--step", 0)["tensors"]
        assert tensor["statistics"]["max"] == "Infinity"
        assert tensor["statistics"]["min"] == "-Infinity"
        assert tensor["statistics"]["positive inf count"] == 1


class TestStatisticDump:
    def test_rows_are_shown_without_values(self, tmp_path: Path, shown: Shown) -> None:
        made, graph = MadeDump(tmp_path), small_graph()
        made.add_graph(graph)
        made.add_rows(
            made.step(0),
            ["max", "min", "l2norm", "nan count"],
            [
                (graph.node(LOG), "input.0", ["4", "1", "5.477", "0"]),
                (graph.node(LOG), "output.0", ["nan", "nan", "nan", "2"]),
            ],
        )
        lines = [line.rstrip() for line in shown(tmp_path, "--step", 0).splitlines()]
        assert lines[2:4] == [
            "    input.0   float32[4]  min 1    max 4    l2norm 5.477",
            "    output.0  float32[4]  min nan  max nan  l2norm nan  2 nan",
        ]
        assert "         2   " in shown(tmp_path)
        first, second = shown.json(tmp_path, "--step", 0)["tensors"]
        assert first["statistics"] == {"max": 4.0, "min": 1.0, "l2norm": 5.477, "nan count": 0}
        assert second["statistics"]["max"] == "NaN"
        assert second["file"] is None


class TestOverflow:
    ENTRIES = (
        {
            "op": LOG,
            "role": "producer",
            "phase": "forward",
            "source": {
                "file": "/home/ada/net.py",
                "line": 12,
                "function": "f",
                "code": "  x.log()",
            },
            "inputs": [
                {
                    "slot": 0,
                    "dtype": "float32",
                    "shape": [4],
                    "nan_count": 0,
                    "max": 4.0,
                    "min": -2.0,
                }
            ],
            "outputs": [
                {
                    "slot": 0,
                    "dtype": "float32",
                    "shape": [4],
                    "nan_count": 1,
                    "max": "NaN",
                    "min": "NaN",
                }
            ],
            "from": None,
        },
        {"op": SCALE, "role": "carrier", "phase": "forward", "source": None, "from": LOG},
    )

    def test_the_producer_comes_first_with_its_line(self, tmp_path: Path, shown: Shown) -> None:
        made = small_dump(tmp_path)
        made.add_overflow(made.step(5), list(self.ENTRIES))
        lines = [line.rstrip() for line in shown(tmp_path).splitlines()]
        start = lines.index("NaN or Inf in step 5, rank 0: 1 op produced it, 1 op propagated it")
        assert lines[start + 1 : start + 6] == [
            f"  made by {LOG}, forward",
            "    /home/ada/net.py:12  x.log()",
            "    input.0   float32[4]  min -2   max 4",
            "    output.0  float32[4]  min nan  max nan  1 nan",
            f"  passed on by {SCALE} from",
        ]

    def test_invalid_values_in_the_file_are_shown_unchanged(
        self, tmp_path: Path, shown: Shown
    ) -> None:
        made = small_dump(tmp_path)
        nonsense = {"slot": [], "dtype": 3, "shape": 7, "nan_count": "many", "max": {}, "min": "x"}
        made.add_overflow(
            made.step(5), [{"op": "a", "role": "producer", "inputs": [nonsense, 4], "outputs": 5}]
        )
        assert "made by a" in shown(tmp_path)

    def test_as_json(self, tmp_path: Path, shown: Shown) -> None:
        made = small_dump(tmp_path)
        made.add_overflow(made.step(5), list(self.ENTRIES))
        (step,) = shown.json(tmp_path)["overflow"]
        assert (step["step"], step["rank"]) == (5, 0)
        assert [(op["op"], op["role"], op["origin"]) for op in step["ops"]] == [
            (LOG, "producer", None),
            (SCALE, "carrier", LOG),
        ]


class TestMistakes:
    def test_a_path_that_is_not_there(self, tmp_path: Path, shown: Shown) -> None:
        error = shown.fails(tmp_path / "nothing")
        assert "does not exist" in error
        assert error.endswith("[no-dump]\n")

    def test_an_op_that_is_not_there_gets_the_nearest_names(
        self, tmp_path: Path, shown: Shown
    ) -> None:
        small_dump(tmp_path)
        error = shown.fails(tmp_path, "--op", "lgo")
        assert "'lgo' matches no op in the dump; did you mean" in error
        assert "log" in error

    def test_an_op_like_no_other(self, tmp_path: Path, shown: Shown) -> None:
        small_dump(tmp_path)
        assert "; the op types are log, mul" in shown.fails(tmp_path, "--op", "qqqqqqqq")

    def test_a_dump_without_tensors(self, tmp_path: Path, shown: Shown) -> None:
        small_dump(tmp_path)
        for file in tmp_path.rglob("*.npy"):
            file.unlink()
        for file in tmp_path.rglob("statistic.csv"):
            file.unlink()
        assert "the dump has no tensors" in shown.fails(tmp_path, "--op", "log")

    @pytest.mark.parametrize("text", ["x" * 5000, f"Default/{'x' * 5000}"])
    def test_a_very_long_pattern_is_not_printed_whole(
        self, text: str, tmp_path: Path, shown: Shown
    ) -> None:
        small_dump(tmp_path)
        error = shown.fails(tmp_path, "--op", text)
        assert "characters) matches no op in the dump" in error
        assert len(error) < 500

    def test_gradients_are_said_to_be_outputs_of_ops(self, tmp_path: Path, shown: Shown) -> None:
        small_dump(tmp_path)
        error = shown.fails(tmp_path, "--op", "grad")
        assert "a gradient is an output of the op that computes it" in error

    def test_a_step_that_is_not_there(self, tmp_path: Path, shown: Shown) -> None:
        small_dump(tmp_path)
        assert "step 3 is not in the dump; its steps are 0|5" in shown.fails(tmp_path, "--step", 3)

    def test_a_rank_that_is_not_there(self, tmp_path: Path, shown: Shown) -> None:
        small_dump(tmp_path)
        assert "no rank 4; there are [0]" in shown.fails(tmp_path, "--rank", 4)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--step", "5-"], "is not a list of steps"),
            (["--op", "name-regex([)"], "is not a regular expression"),
            (["--io", "both"], "'both' is not one of"),
            (["--limit", "-1"], "-1 is not in the range"),
        ],
    )
    def test_options_that_make_no_sense(
        self, tmp_path: Path, shown: Shown, arguments: list[str], message: str
    ) -> None:
        small_dump(tmp_path)
        assert message in shown.fails(tmp_path, *arguments)


def test_sizes_are_rounded_to_three_figures() -> None:
    assert [size_text(size) for size in (0, 999, 1000, 12_345_678, 999_600, 5 * 10**15)] == [
        "0 B",
        "999 B",
        "1 kB",
        "12.3 MB",
        "1 MB",
        "5e+03 TB",
    ]


def test_steps_are_written_as_ranges() -> None:
    assert steps_text([0, 1, 2, 5, 7, 8]) == "0-2|5|7-8"
    assert steps_text([]) == "none"
