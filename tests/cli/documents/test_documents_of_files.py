"""The documents of commands that read files."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.cli.documents.printed import validated
from tests.cli.replayed_steps import guarded
from tests.compare.weights.weights import CHECKPOINTS
from tests.dump.old_formats.made_old_dumps import write_bin
from tests.profile.made import profile as made_profile
from tests.trends.made_stores import MadeTraining, write_training
from torch import nn

from sonde.cli import site_file
from sonde.cli.main import main
from sonde.profile.document import save_profile
from sonde.summary import SummaryCollector
from sonde.train import Model

NAN_LOG = Path(__file__).parents[2] / "dump/data/nan_log/dump"

CASES: list[tuple[str, str]] = [
    ("show", "{nan_log}"),
    ("show", "{nan_log} --step 2"),
    ("show", "{nan_log} --step 2 --op Log --values --index '[0]'"),
    ("show", "{guard}"),
    ("show", "{stats} --trend activation_rms"),
    ("show", "{summary}"),
    ("show", "{init}"),
    ("convert", "{old} {new}/converted"),
    ("compare", "{nan_log} {nan_log}"),
    ("params", "{init}"),
    ("params", "{init} {final}"),
    ("ckpt check", "{bad}"),
    ("ckpt convert", "{init} {new}/model.pt --to torch"),
    ("ckpt diff", "{init} {final}"),
    ("query", "{stats}"),
    ("query", "{stats} 'from tensors limit 3'"),
    ("dump prune", "{stats}"),
    ("ranks", "{two}"),
    ("loss", "{curve} {other}"),
    ("profile", "diff {before} {after}"),
    ("view", "--check {nan_log}"),
    ("view", "--check {nan_log} {nan_log}"),
    ("enable", ""),
    ("status", ""),
    ("disable", ""),
    ("skill", "{new}/skills"),
    ("skill", "-"),
    ("find", "LossMonitor"),
]
COVERED = {command for command, _ in CASES}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("documents")
    (folder / "guarded").mkdir()
    guarded(folder / "guarded")
    categories = ("max", "min", "avg", "l2norm", "zero count")
    write_training(MadeTraining(steps=12), folder / "stats", categories=categories)
    torch.manual_seed(0)
    network = nn.Linear(2, 1)
    model = Model(network, nn.MSELoss(), torch.optim.SGD(network.parameters(), 0.1))
    batches = [(torch.ones(4, 2), torch.zeros(4, 1))] * 4
    model.train(1, batches, callbacks=[SummaryCollector(str(folder / "summary"), collect_freq=1)])
    old = folder / "old" / "Net" / "device_0" / "iteration_0"
    write_bin(old, "Default/ReduceMean-op5", "output", 0, np.array(7.5, np.float32))
    shutil.copytree(NAN_LOG, folder / "two")
    (rank,) = (each for each in (folder / "two").iterdir() if each.name.startswith("rank_"))
    shutil.copytree(rank, folder / "two" / "rank_1")
    (folder / "curve.json").write_text("[3.0, 2.0, 1.0]")
    (folder / "other.json").write_text("[3.0, 2.5, 1.5]")
    for name in ("before", "after"):
        save_profile(made_profile(), folder / f"{name}.json")
    return folder


@pytest.mark.parametrize(("command", "words"), CASES)
def test_what_is_printed_has_the_form_of_the_schema(
    command: str,
    words: str,
    place: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(site_file, "directories", lambda: [tmp_path])
    monkeypatch.setattr(site_file, "has_effect", lambda: True)  # not a directory of Python
    given = {
        "nan_log": NAN_LOG,
        "guard": place / "guarded" / "sonde_steps",
        "stats": place / "stats",
        "summary": place / "summary",
        "init": CHECKPOINTS / "bn_compare_init.ckpt",
        "final": CHECKPOINTS / "bn_compare_final.ckpt",
        "bad": CHECKPOINTS / "nan_log_final.ckpt",
        "old": place / "old",
        "new": tmp_path,
        "two": place / "two",
        "curve": place / "curve.json",
        "other": place / "other.json",
        "before": place / "before.json",
        "after": place / "after.json",
    }
    arguments = [each.format_map(given) for each in shlex.split(words)]
    code = main([*command.split(), "--json", *arguments])
    out, err = capsys.readouterr()
    assert code in (0, 1), err
    assert validated(command, out)
