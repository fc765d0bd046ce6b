"""``sonde query``, ``sonde show --trend`` and ``--csv``, ``sonde dump prune``."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from pathlib import Path

import numpy as np
import pytest
from tests.trends.made_stores import MadeTraining, write_training

from sonde.cli.main import main
from sonde.cli.show_trend import sparkline
from sonde.dump.statistic_store.files import list_files
from sonde.monitor.signal_history import SignalHistory, history_directory
from sonde.monitor.signals import Signals


@pytest.fixture(scope="module")
def training() -> MadeTraining:
    return MadeTraining(steps=12)


@pytest.fixture(scope="module")
def dump(training: MadeTraining, tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("asked")
    categories = ("max", "min", "avg", "l2norm", "zero count", "md5")
    write_training(training, directory, categories=categories)
    return str(directory)


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == 0
    return capsys.readouterr().out


def test_without_sql_the_tables_are_listed(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "query", dump)
    assert "steps 0 to 11, 1 rank" in text
    assert "rank_outliers(step)" in text
    assert "columns of tensors: rank, step, op" in text


def test_a_table_has_units(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    sql = "select bytes, 1234567 as amount, 0.5 as zero_fraction, 2026 as step from ops limit 1"
    head, row = said(capsys, "query", dump, sql).splitlines()
    assert head.split() == ["bytes", "amount", "zero_fraction", "step"]
    assert row.split() == ["80", "B", "1,234,567", "50", "%", "2026"]
    assert "and 117 more rows" in said(capsys, "query", dump, "from tensors", "--limit", "99")


def test_csv_and_json_have_every_digit(
    dump: str, training: MadeTraining, capsys: pytest.CaptureFixture[str]
) -> None:
    sql = "select op, max from tensors where step = 5 order by op"
    expected = {name: float(array.max()) for name, array in training.arrays[5].items()}
    rows = csv.DictReader(io.StringIO(said(capsys, "query", dump, sql, "--csv")))
    assert {row["op"]: float(row["max"]) for row in rows} == expected
    found = json.loads(said(capsys, "query", dump, sql, "--json"))
    assert {row["op"]: row["max"] for row in found} == expected


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["selec 1"], "the query cannot be answered"),
        (["from tensors", "--csv", "--json"], "--csv and --json exclude each other"),
    ],
)
def test_a_wrong_query_is_one_line(
    dump: str, words: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["query", dump, *words]) == 2
    found = capsys.readouterr()
    assert line in found.err
    assert len(found.err.splitlines()) == 1
    if "--json" in words:
        assert line in json.loads(found.out)["error"]["message"]
    else:
        assert found.out == ""


def test_a_missing_directory_and_one_without_statistics_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rank_0").mkdir()
    for place in (tmp_path, tmp_path / "missing"):
        for words in (["query"], ["show", "--trend", "grad_norm"], ["dump", "prune"]):
            assert main([*words, str(place)]) == 2
            assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_trend_of_the_layer_that_changes_most_comes_first(
    dump: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = said(capsys, "show", dump, "--trend", "grad_norm").splitlines()
    assert [line.split()[0] for line in lines[1:3]] == ["layer", "net/1-Linear"]
    assert len(lines) == 5
    found = json.loads(said(capsys, "show", dump, "--trend", "grad_norm", "--json"))
    assert found["layers"][0]["layer"] == "net/1-Linear"
    assert found["steps"] == list(range(12))
    assert main(["show", dump, "--trend", "gradnorm"]) == 2
    assert "did you mean 'grad_norm'" in capsys.readouterr().err
    assert main(["show", dump, "--trend", "grad_norm", "--step", "3"]) == 2
    assert main(["show", dump, "--trend", "grad_norm", "--rank", "7"]) == 2


def test_sparklines_show_scale_gaps_and_infinities() -> None:
    known = np.array([True, True, False, True, True, True])
    assert sparkline(np.array([0.0, 7.0, np.nan, np.inf, np.nan, 3.5]), known) == "▁█ !!▅"
    assert sparkline(np.array([1.0, 1e4, 1e8])) == "▁▅█"
    assert sparkline(np.array([2.0, 2.0])) == "▁▁"
    assert sparkline(np.array([np.nan, np.inf])) == "!!"


def test_a_layer_that_turns_nan_comes_first_and_says_since_when(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    training = MadeTraining(steps=50)
    for step in range(33, 50):
        training.arrays[step]["Gradients/Default/net/2-Linear/mm-op0"][0, 0] = np.nan
    write_training(training, tmp_path)
    lines = said(capsys, "show", str(tmp_path), "--trend", "grad_norm").splitlines()
    assert "steps 0 to 49" in lines[1]
    assert lines[2].split()[0] == "net/2-Linear"
    assert lines[2].endswith("not finite since step 33")  # Though two steps are one column.
    found = json.loads(said(capsys, "show", str(tmp_path), "--trend", "grad_norm", "--json"))
    assert found["layers"][0]["not_finite_since"] == 33
    assert "!" in lines[2]
    assert "!" not in lines[3]


def test_csv_is_the_form_of_mindspore(
    dump: str, training: MadeTraining, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["show", dump, "--csv", "--step", "4"]) == 0
    text = capfdbinary.readouterr().out.decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert {row["Op Name"] for row in rows} == set(training.arrays[4])
    for row in rows:
        array = training.arrays[4][row["Op Name"]]
        assert float(row["Max Value"]) == array.max()
        assert int(row["Zero Count"]) == (array == 0).sum()
        assert (row["Shape"], row["Data Type"], len(row["MD5"])) == ("(4,5)", "Float32", 16)
    assert main(["show", dump, "--csv", "--json"]) == 2


def test_hashes_are_hexadecimal_digits(
    dump: str, training: MadeTraining, capsys: pytest.CaptureFixture[str]
) -> None:
    sql = "select op, md5 from tensors where step = 2"
    found = json.loads(said(capsys, "query", dump, sql, "--json"))
    expected = {
        name: hashlib.md5(array.tobytes()).hexdigest()[:16]
        for name, array in training.arrays[2].items()
    }
    assert {row["op"]: row["md5"] for row in found} == expected


def test_prune_thins_what_is_older(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    training = MadeTraining(layers=1, steps=300)
    directory = write_training(training, tmp_path, block_steps=100)
    text = said(capsys, "dump", "prune", str(tmp_path), "--keep", "120")
    assert "2 files thinned" in text
    forms = [each.form for each in list_files(directory, "rows")]
    assert forms == ["thinned", "thinned", "op_order"]
    steps = "select step, any_value(steps) from rows group by step order by step"
    found = said(capsys, "query", str(tmp_path), steps, "--csv").splitlines()[1:]
    assert found == [
        "0,100",
        "100,80",
        *(f"{step},1" for step in range(180, 200)),
        *(f"{step}," for step in range(200, 300)),
    ]
    said(capsys, "dump", "prune", str(tmp_path), "--keep", "20", "--bucket", "50")
    found = said(capsys, "query", str(tmp_path), steps, "--csv").splitlines()[1:]
    assert found[:5] == ["0,100", "100,80", "180,20", "200,50", "250,30"]
    assert found[5:] == [f"{step},1" for step in range(280, 300)]
    name = "Default/net/0-Linear/addmm-op0"
    sql = f"select max(high) from series('{name}', 'max')"
    expected = max(float(arrays[name].max()) for arrays in training.arrays.values())
    assert said(capsys, "query", str(tmp_path), sql, "--csv").splitlines()[1] == str(expected)
    assert main(["dump", "prune", str(tmp_path), "--bucket", "5"]) == 2


def test_prune_keeps_the_steps_around_the_triggers_of_a_guard(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = SignalHistory(history_directory(tmp_path, 0))
    for step in range(60):
        history.write(Signals(step, loss=1.0, triggers=int(step == 30)))
    history.close()
    said(capsys, "dump", "prune", str(tmp_path), "--keep", "5")
    sql = "select distinct step from rows where steps = 1 order by step"
    kept = [int(line) for line in said(capsys, "query", str(tmp_path), sql, "--csv").split()[1:]]
    assert kept == [*range(20, 41), *range(55, 60)]
