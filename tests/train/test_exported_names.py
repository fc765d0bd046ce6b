"""``from sonde.train import *`` has every name of the toolkit."""

from __future__ import annotations

import builtins
import importlib
import re
import subprocess
import sys

import pytest
import torch

import sonde.train
from sonde.train import learning_rate, loss_scale, metrics, one_step


def test_a_star_import_has_the_names_of_all_parts() -> None:
    names: dict[str, object] = {}
    exec("from sonde.train import *", names)
    for module in (learning_rate, loss_scale, one_step):
        own = {
            name
            for name, value in vars(module).items()
            if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
        }
        assert own - {"schedules_of"} <= set(names), module
    assert set(metrics.__all__) - {"names"} <= set(names)
    assert {"SummaryCollector", "set_seed", "set_dump", "set_context", "Cell"} <= set(names)
    assert not set(sonde.train.__all__) & set(dir(builtins))
    assert len(set(sonde.train.__all__)) == len(sonde.train.__all__)
    assert set(sonde.train.__all__) <= set(dir(sonde.train))


def test_names_are_found_when_they_are_first_used() -> None:
    assert sonde.train.Accuracy is metrics.Accuracy
    assert sonde.train.float16 is torch.float16
    assert sonde.train.context.set_context is sonde.train.set_context
    assert sonde.train.ops.Print is not None


@pytest.mark.parametrize(
    ("module", "mistyped", "meant"),
    [
        ("sonde.train", "Modle", "did you mean 'Model'?"),
        ("sonde.train", "Accurracy", "did you mean 'Accuracy'"),
        ("sonde.train", "loadcheckpoint", "did you mean 'load_checkpoint'"),
        ("sonde.train.nn", "CosineDecay", "did you mean 'CosineDecayLR', 'cosine_decay_lr' or"),
        ("sonde", "set_contxt", "did you mean 'set_context'"),
        ("sonde.ops", "print_gard", "did you mean 'print_grad'"),
        ("sonde.train.dataset", "GenratorDataset", "did you mean 'GeneratorDataset'"),
        ("sonde.tune", "HyperConfg", "did you mean 'HyperConfig'"),
        ("sonde.summary", "SummaryColector", "did you mean 'SummaryCollector'"),
    ],
)
def test_a_mistyped_name_is_answered_with_the_nearest(
    module: str, mistyped: str, meant: str
) -> None:
    with pytest.raises(ImportError, match=re.escape(meant)) as imported:
        exec(f"from {module} import {mistyped}")
    assert f"{module!r} has no attribute {mistyped!r}" in str(imported.value)
    with pytest.raises(AttributeError, match=re.escape(meant)):
        getattr(importlib.import_module(module), mistyped)
    assert not hasattr(importlib.import_module(module), mistyped)


def test_a_name_like_no_other_is_refused_without_a_proposal() -> None:
    with pytest.raises(AttributeError, match=r"has no attribute 'zzz'$"):
        _ = sonde.train.zzz


def test_without_torchmetrics_a_star_import_works_and_a_metric_says_what_it_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sonde.train._NEEDED, "sonde.train.metrics", "no_such_library")
    names: dict[str, object] = {}
    exec("from sonde.train import *", names)
    assert "Model" in names
    assert "Accuracy" not in names
    with pytest.raises(
        ImportError, match=r"metrics need torchmetrics: pip install 'sonde\[train\]'"
    ):
        exec("from sonde.train import Accuracy")


def test_a_star_import_is_the_same_after_the_import_of_a_submodule() -> None:
    first = "from sonde.train import nn\nimport sonde.train.dataset, sonde.train.learning_rate\n"
    code = "from sonde.train import *\nimport sonde.train\nprint(*sonde.train.__all__)"
    shown = [
        subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
        for text in (code, first + code)
    ]
    assert "Model" in shown[0].stdout.split()
    assert shown[0].stdout == shown[1].stdout


def test_importing_the_toolkit_does_not_import_the_slow_libraries() -> None:
    slow = "{'torchmetrics', 'tensorboard', 'scipy'}"
    code = f"import sys, sonde.train; print(*sorted({slow} & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == ""
