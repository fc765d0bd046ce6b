"""The commands and programs of the guides run: no option, file format or name of them is outdated.

The tutorials have their own test, which compares what their commands print.
"""

from __future__ import annotations

import doctest
import re
import shlex
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import torch
import torch.distributed as dist
from tests.docs import rule_names, snippets
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


CONSOLES = [
    (page.name, text)
    for page in GUIDES
    for text in re.findall(r"(?ms)^```pycon\n(.*?)^```", page.read_text())
]


@pytest.mark.parametrize(("page", "text"), CONSOLES)
def test_python_consoles_print_what_they_show(page: str, text: str) -> None:
    names = {"sonde": sonde, "torch": torch}
    shown: list[str] = []
    example = doctest.DocTestParser().get_doctest(text, names, page, page, 0)
    failed, tried = doctest.DocTestRunner().run(example, out=shown.append)
    assert tried > 0
    assert failed == 0, "".join(shown)


def test_there_is_a_python_console() -> None:
    assert CONSOLES


RULES = [
    (page.stem, number, text)
    for page in sorted((ROOT / "docs" / "rules").glob("*.md"))
    for number, text in enumerate(PYTHON.findall(page.read_text()))
]


@pytest.fixture(scope="module")
def process_group() -> Iterator[None]:
    """A group of one process, which examples about ranks need. One of them sets a flag of torch."""
    allowed = torch.backends.cuda.matmul.allow_tf32
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()
    torch.backends.cuda.matmul.allow_tf32 = allowed


@pytest.mark.usefixtures("process_group")
@pytest.mark.filterwarnings("ignore")  # Examples of bugs: torch warns of some.
@pytest.mark.parametrize(("page", "number", "text"), RULES)
def test_examples_of_rules_run(
    page: str, number: int, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are lines of a larger program, here of a method. The pairs of
    tests/adapters/torch/diagnosis prove that the rules find such bugs in whole programs."""
    monkeypatch.chdir(tmp_path)
    known = rule_names.names(tmp_path)
    known |= rule_names.own_names(page, known)
    if "return" in text and "def " not in text:
        text = f"def forward(self, h):\n{textwrap.indent(text, '    ')}\nforward(self, h)"
    exec(compile(text, f"{page}-{number}", "exec"), known)


def test_there_are_examples_of_rules() -> None:
    assert len(RULES) > 100
