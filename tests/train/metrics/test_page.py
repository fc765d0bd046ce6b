"""The pages on metrics, learning rates and loss scale name everything, and their examples run."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest
import torch

import sonde.train.learning_rate as learning_rate
import sonde.train.loss_scale as loss_scale
from sonde.core import arguments
from sonde.train import metrics

DOCS = Path(__file__).parents[3] / "docs"
METRICS = (DOCS / "metrics.md").read_text()
RATES = (DOCS / "learning-rates.md").read_text()


def _examples(page: str) -> list[str]:
    return re.findall(r"(?ms)^```python\n(.*?)^```", page)


def test_every_metric_is_on_its_page_by_name_and_by_class():
    for name in metrics.names():
        assert f"`{name}`" in METRICS, name
        assert type(metrics.get_metrics(_with_arguments(name))[name]).__name__ in METRICS, name


def _with_arguments(name: str) -> dict[str, metrics.Metric]:
    arguments = {"topk": (3,), "Fbeta": (2.0,)}.get(name, ())
    return {name: metrics.get_metric_fn(name, *arguments)}


@pytest.mark.parametrize(
    "module", [learning_rate, loss_scale, arguments], ids=lambda module: module.__name__
)
def test_everything_public_is_on_the_page_of_rates_and_scales(module):
    for name, value in vars(module).items():
        of_its_own = getattr(value, "__module__", None) == module.__name__
        if of_its_own and not name.startswith("_") and not name.endswith(("Error", "Manager")):
            if name in ("LossScaler", "schedules_of", "wrong_type", "wrong_value"):
                continue
            assert f"{name}" in RATES, name


def test_the_first_example_prints_what_the_page_says():
    shown = io.StringIO()
    with redirect_stdout(shown):
        exec(_examples(METRICS)[0], {})
    assert shown.getvalue() == "Accuracy is  0.6667\n"


def test_the_custom_metric_on_the_page_works():
    names: dict[str, type] = {}
    exec(_examples(METRICS)[-1], names)
    metric = names["LargestError"]()
    metric.update(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]))
    assert metric.eval() == 2
    assert metric.set_indexes([1, 0])(torch.zeros(1), torch.ones(1)) == 1


def test_the_custom_schedule_on_the_page_works():
    names: dict[str, type] = {}
    exec(next(text for text in _examples(RATES) if "class WarmUpLR" in text), names)
    assert [names["WarmUpLR"](1.0, 4)(step) for step in range(6)] == [0, 0.25, 0.5, 0.75, 1, 1]


def test_the_example_of_scaled_steps_runs():
    net = torch.nn.Linear(2, 1)
    data = [(torch.randn(4, 2), torch.randn(4, 1)) for _ in range(3)]
    names = {
        "net": net,
        "loss_fn": torch.nn.MSELoss(),
        "opt": torch.optim.SGD(net.parameters(), lr=0.1),
        "loader": data,
    }
    shown = io.StringIO()
    with redirect_stdout(shown):
        exec(next(text for text in _examples(RATES) if "scale_sense =" in text), names)
    assert re.fullmatch(
        r"(step: \d, loss: \d+\.\d+(e-\d+)?, overflow:False, scale:4096\.0\n){3}", shown.getvalue()
    )
