"""``sonde run --stats`` and ``--overflow`` on whole programs, as commands."""

from __future__ import annotations

import re
from pathlib import Path

from tests.adapters.torch.csv_rows import statistics_of
from tests.e2e.running import run

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
    found = statistics_of(dump)
    assert list(found) == [0, 1, 2]
    assert not list(dump.rglob("*.npy"))
    for rows in found.values():
        assert [name for name, _ in rows[0].texts] == [
            "max",
            "min",
            "avg",
            "l2norm",
            "nan count",
            "negative inf count",
            "positive inf count",
        ]
        phases = {row.op.split("/")[0] for row in rows if "/" in row.op}
        assert phases == {"Default", "Gradients"}
        assert any(row.op.startswith("Default/optimizer-Adam/") for row in rows)
        (loss,) = [
            row
            for row in rows
            if row.op == "Default/nll_loss_forward-op0" and row.slot == 0
            if row.io == "output"
        ]
        assert loss.shape == "()"
    losses = [float.fromhex(line) for line in bare.stdout.splitlines()]
    assert losses == [
        row.number("max")
        for rows in found.values()
        for row in rows
        if row.place == ("Default/nll_loss_forward-op0", "output", 0)
    ]

    shown = run("-m", "sonde", "show", str(dump), "--step", "1", "--op", "relu", "--io", "output")
    assert shown.returncode == 0
    (row,) = [row for row in found[1] if row.op.endswith("ReLU/relu-op0") and row.io == "output"]
    assert f"{row.number('max'):.4g}" in shown.stdout
    assert "healthy.py:12" in shown.stdout


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
    assert "(Default/optimizer-SGD/add_-op0): its result is beyond 3.403e+38" in watched.stderr
