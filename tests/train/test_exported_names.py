"""``from sonde.train import *`` has every name of the toolkit."""

from __future__ import annotations

import builtins
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


def test_the_lazy_names_are_those_of_the_metrics() -> None:
    assert set(sonde.train._METRICS) == set(metrics.__all__)
    assert sonde.train.Accuracy is metrics.Accuracy
    assert sonde.train.float16 is torch.float16
    assert sonde.train.context.set_context is sonde.train.set_context
    assert sonde.train.ops.Print is not None
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = sonde.train.Nothing


def test_importing_the_toolkit_does_not_import_the_slow_libraries() -> None:
    slow = "{'torchmetrics', 'tensorboard', 'scipy'}"
    code = f"import sys, sonde.train; print(*sorted({slow} & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == ""
