"""``sonde run --stats`` and ``--overflow`` on whole programs, as commands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.adapters.torch.csv_rows import statistics_of
from tests.e2e.running import environment, run

from sonde.dump.reader import Dump

SCRIPTS = Path(__file__).parent / "scripts"
HEALTHY = str(SCRIPTS / "healthy.py")


def test_stats_writes_a_row_for_every_tensor_of_every_step(tmp_path: Path) -> None:
    bare = run(HEALTHY)
    dump = tmp_path / "out"
    watched = run("-m", "sonde", "run", "--stats", "--dump-to", str(dump), HEALTHY)
    assert (watched.returncode, watched.stdout) == (0, bare.stdout)
    assert re.fullmatch(
        r"sonde: dumped steps 0-2: \d+ ops, \d+ files, \S+ kB in .*\n", watched.stderr
    )
    assert not list(dump.rglob("*.npy"))
    assert not list(dump.rglob("statistic.csv"))
    found = {step: Dump(dump).statistics(step) for step in (0, 1, 2)}
    assert Dump(dump).steps() == (0, 1, 2)
    for rows in found.values():
        assert set(rows[0].values) == {
            *("max", "min", "avg", "l2norm", "zero count"),
            *("nan count", "negative inf count", "positive inf count"),
        }
        phases = {row.op_name.split("/")[0] for row in rows if "/" in row.op_name}
        assert phases == {"Default", "Gradients"}
        assert any(row.op_name.startswith("Default/optimizer-Adam/") for row in rows)
    losses = [float.fromhex(line) for line in bare.stdout.splitlines()]
    assert losses == [
        row.values["max"]
        for rows in found.values()
        for row in rows
        if (row.op_name, row.io, row.slot) == ("Default/nll_loss_forward-op0", "output", 0)
    ]

    shown = run("-m", "sonde", "show", str(dump), "--step", "1", "--op", "relu", "--io", "output")
    assert shown.returncode == 0
    (row,) = [
        row for row in found[1] if row.op_name.endswith("ReLU/relu-op0") and row.io == "output"
    ]
    assert f"{row.values['max']:.4g}" in shown.stdout
    assert "healthy.py:12" in shown.stdout


def test_stats_without_duckdb_are_csv_files_and_a_line_says_what_to_install(
    tmp_path: Path,
) -> None:
    (tmp_path / "blocked").mkdir()
    (tmp_path / "blocked" / "sitecustomize.py").write_text(
        "import importlib.util as util\n"
        "found = util.find_spec\n"
        "util.find_spec = lambda name, *more: None if name == 'duckdb' else found(name, *more)\n"
    )
    dump = tmp_path / "out"
    words = ("-m", "sonde", "run", "--stats", "--dump-to", str(dump), HEALTHY)
    watched = subprocess.run(
        [sys.executable, *words],
        env=environment(PYTHONPATH=str(tmp_path / "blocked")),
        capture_output=True,
        text=True,
        check=False,
    )
    assert watched.returncode == 0
    assert "pip install 'sonde[query]' [statistics-as-csv]" in watched.stderr.splitlines()[0]
    assert list(statistics_of(dump)) == [0, 1, 2]


def test_overflow_of_a_healthy_program_reports_no_fault_and_leaves_no_step(tmp_path: Path) -> None:
    bare = run(HEALTHY)
    dump = tmp_path / "out"
    watched = run("-m", "sonde", "run", "--overflow", "--dump-to", str(dump), HEALTHY)
    assert (watched.returncode, watched.stdout) == (0, bare.stdout)
    assert watched.stderr == "sonde: every value of the observed steps was finite\n"
    assert not list(dump.rglob("[0-9]*/overflow.json"))
    assert not list(dump.rglob("*.npy"))


def test_a_monitor_of_the_loss_names_the_op_of_an_earlier_step(tmp_path: Path) -> None:
    script = SCRIPTS / "monitored.py"
    watched = run("-m", "sonde", "run", "--overflow", "--dump-to", str(tmp_path / "d"), str(script))
    assert watched.returncode == 1
    assert len(watched.stdout.splitlines()) == 1
    assert (
        "In epoch: 1 step: 2, loss is NAN or INF, training process cannot continue, terminating "
        "training. The first NaN or Inf came from Default/optimizer-SGD/add_-op"
    ) in watched.stderr
    assert f" at {script}:12." in watched.stderr
    assert "add made 6 Inf of 16 values in step 0, optimizer, at monitored.py:12" in watched.stderr
    assert "(optimizer-SGD/add_-op0): its result is beyond 3.403e+38" in watched.stderr
