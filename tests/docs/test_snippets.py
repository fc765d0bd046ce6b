"""The commands and programs of the guides run: no option, file format or name of them is outdated.

The tutorials have their own test, which compares what their commands print.
"""

from __future__ import annotations

import ast
import shlex
import textwrap
from pathlib import Path
from typing import Any

import click
import pytest
import torch
from tests.docs import snippets
from tests.docs.console import ROOT, run
from tests.docs.snippets import GUIDES, PYTHON

import sonde
from sonde.cli.main import group
from sonde.train import LossMonitor, Model

COMMANDS = {page.name: snippets.commands(page) for page in GUIDES}
# Commands that take long run on the page about them, which has the same ones.
ON_OWN_PAGE = ("sonde compile-check", "sonde repeat")
RUN = {
    page: [
        each
        for each in found
        if snippets.reason_not_to_run(each) is None
        and not (page == "README.md" and each.startswith(ON_OWN_PAGE))
    ]
    for page, found in COMMANDS.items()
}
# Pages whose programs other tests run.
TESTED = {
    "integrations.md": "tests/integrations/test_page.py",
    "metrics.md": "tests/train/metrics/test_page.py",
    "notebooks.md": "tests/integrations/notebook/test_notebooks.py",
    "pytest.md": "tests/integrations/pytest/test_plugin.py",
    "train.md": "tests/train/test_page.py",
}
PROGRAMS = [
    (page.name, number, text)
    for page in GUIDES
    if page.name not in TESTED
    for number, text in enumerate(PYTHON.findall(page.read_text()))
]


def test_tests_named_here_exist() -> None:
    assert [each for each in TESTED.values() if not (ROOT / each).is_file()] == []
    for words in (*snippets.NOT_RUN, *snippets.NEEDS):
        assert any(words in each for found in COMMANDS.values() for each in found), words


@pytest.mark.parametrize("page", [page for page, found in COMMANDS.items() if found])
def test_commands_have_only_known_options(page: str) -> None:
    for text in COMMANDS[page]:
        for part in text.replace("||", ";").replace("&&", ";").split(";"):
            words = shlex.split(part.replace("&", " ").replace("{", " ").replace(">", " "))
            if words[:1] == ["sonde"]:
                check_options(group, words[1:], text)


def check_options(command: click.Command, words: list[str], text: str) -> None:
    if isinstance(command, click.Group):
        context = click.Context(command)
        known_names = command.list_commands(context)
        place = next(n for n, each in enumerate(words) if each in known_names)
        inner = command.get_command(context, words[place])
        assert inner is not None, text
        check_options(inner, words[place + 1 :], text)
        words = words[:place]
    known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    for word in words:
        if word.endswith(".py") or word == "--":
            return  # What follows belongs to the program.
        if word.startswith("-"):
            assert word.partition("=")[0] in known, (text, word)


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page, found in RUN.items() if found])
def test_commands_run(page: str, tmp_path: Path) -> None:
    folder = snippets.prepared(tmp_path)
    for text in RUN[page]:
        shown = run(f"{text}\necho exit code $?", folder)
        code = shown.rpartition("exit code ")[2].strip()
        assert code in ("0", "1"), f"{text}\n{shown}"
        assert "Traceback" not in shown, f"{text}\n{shown}"


@pytest.mark.parametrize(("page", "number", "text"), PROGRAMS)
def test_programs_run(
    page: str, number: int, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the names that a guide takes for granted."""
    monkeypatch.chdir(tmp_path)
    folder = snippets.prepared(tmp_path)
    net = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    loader = [(torch.randn(4, 2), torch.randn(4, 1)) for _ in range(3)]

    def train_one(batch: torch.Tensor, target: torch.Tensor) -> float:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(net(batch), target)
        loss.backward()
        optimizer.step()
        return loss.item()

    def train(*_: Any) -> None:
        for batch, target in loader:
            train_one(batch, target)

    if 'Dump("out")' in text:
        run("sonde run --dump-to out --dump-steps 5 train.py", folder)
    loss_fn = torch.nn.MSELoss()
    names = {"model": Model(net, loss_fn, optimizer), "net": net, "loss_fn": loss_fn}
    names |= {"opt": optimizer, "optimizer": optimizer, "loader": loader, "dataset": loader}
    names |= {"train": train, "train_one": train_one, "sonde": sonde, "torch": torch}
    names |= {"epoch": 1, "loss_cb": LossMonitor()}
    exec(compile(text, f"{page}-{number}", "exec"), {"__name__": "__main__", **names})


def test_examples_of_rules_are_python() -> None:
    """They are lines of a larger program; the pairs of tests/adapters/torch/diagnosis run whole
    ones."""
    pages = sorted((ROOT / "docs" / "rules").glob("*.md"))
    found = [(page, text) for page in pages for text in PYTHON.findall(page.read_text())]
    assert len(found) > 100
    for page, text in found:
        try:
            ast.parse(f"async def lines():\n{textwrap.indent(text, '    ')}")
        except SyntaxError as error:
            raise AssertionError(f"{page.name}: {error.text}") from error
