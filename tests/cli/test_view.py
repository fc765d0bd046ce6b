"""``sonde view``: its check, and its page as a process."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.request import ProxyHandler, Request, build_opener

import numpy as np
import pytest
from tests.server import written_dumps as dumps
from tests.server.written_dumps import LOG, SUM

from sonde.cli.main import main
from sonde.core.graph import shown_name
from sonde.server import hit_store

MINDSPORE = Path(__file__).parents[1] / "dump" / "data"


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    values = dumps.finite(0)
    values[LOG][0, 0] = values[SUM][0, 0] = np.nan
    return dumps.write_dump(tmp_path / "bad", {0: dumps.outputs(values)})


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return dumps.write_dump(tmp_path / "good", {0: dumps.outputs(dumps.finite(0))})


def view(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main(["view", *words])
    said = capsys.readouterr()
    return code, said.out + said.err


def test_a_check_prints_hits_and_where_they_come_from(
    bad: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = view(capsys, "--check", str(bad))
    assert code == 1
    assert text.splitlines() == [
        "log made 1 NaN of 6 values in step 0, forward, at train.py:7 `x = log(x)` "
        f"({shown_name(LOG)}). "
        "1 other tensor got them from there.",
        f"step 0 rank 0  tensor_overflow  {LOG} output.0  <- makes it",
        "    established: nan_count = 1, 1 NaN among 6 elements",
        "    /home/me/train.py:7  x = log(x)",
        f"step 0 rank 0  tensor_overflow  {SUM} output.0  (passed on)",
        "    established: nan_count = 1, 1 NaN among 6 elements",
        "    /home/me/train.py:7  x = log(x)",
        f"    from {LOG}",
    ]


def test_a_check_without_hits_is_fine(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert view(capsys, "--check", str(good)) == (0, "no hits\n")


def test_a_check_without_values_says_so(
    good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(good / "rank_0" / "graphs", tmp_path / "graphs" / "rank_0" / "graphs")
    why = "no values to check: the dump has graphs only\n"
    assert view(capsys, "--check", str(tmp_path / "graphs")) == (2, why)
    code, text = view(capsys, "--check", "--json", str(tmp_path / "graphs"))
    assert (code, json.loads(text)["unobserved"]) == (2, ["the dump has graphs only"])
    (tmp_path / "nothing" / "rank_0").mkdir(parents=True)
    why = "no values to check: the dump has no steps\n"
    assert view(capsys, "--check", str(tmp_path / "nothing")) == (2, why)


def test_a_check_names_patterns_that_match_nothing(
    good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    conditions = [{"id": "tensor_overflow", "parameters": {}, "expression": ""}]
    points = [{"name": "", "conditions": conditions, "ops": [ops]} for ops in ("lgo", "log")]
    file = tmp_path / "points.json"
    file.write_text(json.dumps({"watchpoints": points, "version": 1}))
    code, text = view(capsys, "--check", "--recommended", "--load", str(file), str(good))
    assert code == 0
    warnings = [line for line in text.splitlines() if "matches" in line]
    assert len(warnings) == 1
    assert "watchpoint 1: no op, parameter or gradient seen so far matches 'lgo'" in warnings[0]
    assert "did you mean 'log'" in warnings[0]
    _, text = view(capsys, "--check", "--json", "--load", str(file), str(good))
    assert [each["id"] for each in json.loads(text)["warnings"]] == [1]


def test_a_check_can_be_read_by_programs(
    bad: Path, good: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = view(capsys, "--check", "--json", str(bad))
    found = json.loads(text)
    assert (code, found["total"], found["hits"][0]["op"]) == (1, 2, LOG)
    code, text = view(capsys, "--check", "--json", str(good), str(bad))
    assert [each["total"] for each in json.loads(text)] == [0, 2]


def test_a_damaged_tensor_is_an_error_and_all_others_are_checked(
    good: Path, bad: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = tmp_path / "cut"
    shutil.copytree(good, dump)
    damaged = next((dump / "rank_0").rglob("sum.*.npy"))
    damaged.write_bytes(damaged.read_bytes()[:-4])
    code, text = view(capsys, "--check", str(dump))
    assert code == 2
    assert f"sonde: error: damaged: {damaged}: byte " in text
    assert "the file ends early" in text
    assert text.splitlines()[-1].endswith(" [npy-file]")
    code, text = view(capsys, "--check", "--json", str(dump))
    found = json.loads(text)
    assert (code, [hit["verdict"] for hit in found["hits"]]) == (2, ["undecided"])
    assert [line.partition(": ")[0] for line in found["damaged"]] == [str(damaged)]
    dump = tmp_path / "cut_and_bad"
    shutil.copytree(bad, dump)
    next((dump / "rank_0").rglob("mul.*.npy")).write_bytes(b"")
    code, text = view(capsys, "--check", str(dump))
    assert (code, "log-op0" in text, "error: damaged" in text) == (1, True, True)


def test_files_that_do_not_belong_to_a_dump_are_no_damage(
    good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = tmp_path / "more"
    shutil.copytree(good, dump)
    (next((dump / "rank_0").rglob("sum.*.npy")).parent / "mine.npy").write_bytes(b"mine")
    code, text = view(capsys, "--check", str(dump))
    assert (code, "mine.npy: is not part of a dump" in text) == (0, True)


def test_a_damaged_graph_is_named_wherever_a_dump_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = tmp_path / "dump"
    shutil.copytree(MINDSPORE / "nan_log", dump, copy_function=shutil.copyfile)
    graph = next(dump.rglob("*.pb"))
    graph.write_bytes(graph.read_bytes()[:100])
    code, text = view(capsys, "--check", str(dump))
    assert code == 1
    assert f"sonde: error: damaged: {graph}: not a graph file: field 4" in text
    main(["view", "--check", "--json", str(dump)])
    assert json.loads(capsys.readouterr().out)["problems"][0].startswith(str(graph))
    assert main(["params", str(dump)]) == 2
    assert f"{graph}: not a graph file" in capsys.readouterr().err
    assert main(["loss", str(dump), str(dump)]) == 2
    assert f"{graph}: not a graph file" in capsys.readouterr().err


def test_conditions_expressions_and_files_can_be_checked(
    good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    large = view(capsys, "--check", "--watch", "tensor_too_large max_gt=6.5", str(good))
    assert large[0] == 1
    assert "max_gt = 7 (set: 6.5)" in large[1]
    assert view(capsys, "--check", "--watch", "max > 6.5 and min > 8", str(good))[0] == 0
    file = tmp_path / "watch.json"
    file.write_text('{"watchpoints": [{"name": "z", "conditions": [{"id": "tensor_all_zero"}]}]}')
    assert view(capsys, "--check", "--load", str(file), str(good)) == (0, "no hits\n")
    assert view(capsys, "--check", "--recommended", str(good))[0] == 0


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--check", "/nowhere"], "/nowhere does not exist"),
        (["--check", "--watch", "nonsense", "."], "there is no condition 'nonsense'"),
        (["--check", "--watch", "max >", "."], "[expression]"),
        (["--check", "--load", "/nowhere.json", "."], "/nowhere.json"),
        (["a", "b", "c"], "takes at most two dumps (got 3)"),
        ([], "missing argument"),
    ],
)
def test_mistakes_are_reported(
    words: list[str], part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = view(capsys, *words)
    assert code == 2
    assert part in text


def test_the_page_shows_a_dump(bad: Path, good: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sonde", "view", "--port", "0", "--no-browser"]
    words = ["--watch", "tensor_overflow", str(bad), str(good)]
    popen = subprocess.Popen(
        [*command, *words],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
    )
    try:
        assert popen.stdout is not None
        page = re.fullmatch(r"sonde: the page is at (\S+)\n", popen.stdout.readline())
        assert page is not None
        found = re.fullmatch(r"(\S+)/\?token=(\S{32,})&tab=compare", page[1])
        assert found is not None
        request = Request(f"{found[1]}/api/v1/runs")
        request.add_header("Authorization", f"Bearer {found[2]}")
        with build_opener(ProxyHandler({})).open(request) as answer:
            runs = json.loads(answer.read())["runs"]
        assert [(run["id"], run["peer"]) for run in runs] == [("good", "bad"), ("bad", "good")]
        assert runs[0]["recheck"] is not None
        assert "libtorch" not in Path(f"/proc/{popen.pid}/maps").read_text()
    finally:
        popen.terminate()
        popen.communicate(timeout=100)
    assert popen.returncode == 0


def test_a_directory_without_a_dump_is_reported_before_the_page_opens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = view(capsys, "--no-browser", "--port", "0", str(tmp_path))
    assert (code, "holds no dump" in text) == (2, True)


def test_a_check_with_very_many_hits_says_how_many_were_not_kept(
    good: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--check", "--watch", "tensor_too_large max_gt=-1e9", str(good))
    code, text = view(capsys, "--json", *words)
    whole = json.loads(text)
    assert (code, whole["dropped"], len(whole["hits"])) == (1, 0, whole["total"])
    monkeypatch.setattr(hit_store, "MOST_HITS", 4)
    found = json.loads(view(capsys, "--json", *words)[1])
    assert found["total"] == len(found["hits"]) <= 4 < whole["total"]
    assert found["total"] + found["dropped"] == whole["total"]
    _, text = view(capsys, *words)
    others = f"{found['dropped']} other hits, neither the first nor the newest, were not kept"
    assert text.splitlines()[-1] == others
