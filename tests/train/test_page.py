"""The page about training: its code runs, and it names everything the package exports."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from tests.train.nets import classifier, loader, sgd
from torch import nn

import sonde.train

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "train.md").read_text()


def test_every_exported_name_is_on_the_page() -> None:
    internal = {"RunArguments", "RunContext", "NonFiniteLossError", "Loop"}
    pages = [PAGE, *((DOCS / f"{name}.md").read_text() for name in ("metrics", "learning-rates"))]
    words = set(re.findall(r"\w+", " ".join(pages)))
    assert set(sonde.train.__all__) - internal - words == set()


def test_the_methods_of_model_have_the_arguments_of_the_page() -> None:
    table = PAGE.partition("## Callbacks")[0]
    shown = dict(re.findall(r"(?m)^\| `(\w+)\((.*?)\)` \|", table))
    assert set(shown) == {"train", "fit", "eval", "predict"}
    nothing = inspect.Parameter.empty
    for name, arguments in shown.items():
        signature = inspect.signature(getattr(sonde.train.Model, name))
        _, *own = (each.replace(annotation=nothing) for each in signature.parameters.values())
        plain = signature.replace(parameters=own, return_annotation=inspect.Signature.empty)
        assert str(plain) == f"({arguments})"


def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    network = classifier()
    optimizer = sgd(network)
    x, y = next(iter(loader()))

    def train_step(x: Any, y: Any) -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(x), y).backward()
        optimizer.step()

    names: dict[str, Any] = {
        "net": network,
        "loader": loader(),
        "valid_loader": loader(),
        "loss_fn": nn.CrossEntropyLoss(),
        "evaluate": lambda net: 1.0,
        "train_step": train_step,
        "x": x,
        "y": y,
    }
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 5
    for block in blocks:
        if "net-1_1.ckpt" in block:
            for step in (1, 2):
                sonde.train.save_checkpoint(network, f"net-1_{step}.ckpt")
        exec(block, names)
    names["train"]([])
    assert (tmp_path / "ckpts" / "run-10_4.ckpt").is_file()
