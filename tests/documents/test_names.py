"""The commands, options and Python names in the column "here" of docs/mindspore.md exist."""

from __future__ import annotations

import importlib
import re
from typing import Any

import click
import pytest
from tests.documents.table import all_proofs

from sonde.cli.main import group
from sonde.core.errors import UsageError

HOWS = {
    item: proof.how for item, proofs in all_proofs().items() for proof in proofs if proof.how != ""
}
CONTEXT = click.Context(group, info_name="sonde")


def command_of(words: list[str]) -> click.Command:
    """The command that these words begin with, such as ``ctl watch add``."""
    found: click.Command = group
    for word in words:
        if not isinstance(found, click.Group):
            break
        inner = found.get_command(CONTEXT, word)
        if inner is None:
            break
        found = inner
    return found


def options_of(command: click.Command) -> set[str]:
    """The options of a command and, if it is a group, of all commands in it."""
    names = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    if isinstance(command, click.Group):
        for name in command.list_commands(CONTEXT):
            inner = command.get_command(CONTEXT, name)
            assert inner is not None
            names |= options_of(inner)
    return names


def quoted(how: str) -> list[str]:
    return re.findall(r"`([^`]+)`", how)


def missing_option(text: str) -> str | None:
    """The option in the text of a command that the command does not have."""
    words = text.split()
    if words[0] == "sonde" and len(words) > 1:
        known = options_of(command_of(words[1:]))
    elif words[0].startswith("--"):
        known = options_of(group)
    else:
        return None
    options = [found[0] for found in map(re.compile(r"--[a-z][\w-]*").match, words) if found]
    return next((option for option in options if option not in known), None)


def test_commands_and_options_exist() -> None:
    texts = [(item, text) for item, how in HOWS.items() for text in quoted(how)]
    assert [(item, text) for item, text in texts if missing_option(text) is not None] == []


def resolved(name: str) -> Any:
    """What a dotted Python name stands for; None if there is no such name."""
    parts = name.split(".")
    found: Any = importlib.import_module(parts[0])
    for number, part in enumerate(parts[1:], 1):
        try:
            found = getattr(found, part)
        except AttributeError:
            try:
                found = importlib.import_module(".".join(parts[: number + 1]))
            except ImportError:
                return None
    return found


def test_python_names_exist() -> None:
    names = [
        (item, name)
        for item, how in HOWS.items()
        for text in quoted(how)
        for name in re.findall(r"\bsonde(?:\.[A-Za-z_]\w*)+", text)
        if not name.startswith("sonde.log.")  # the name of a log file
    ]
    assert len(names) > 20
    assert [(item, name) for item, name in names if resolved(name) is None] == []


@pytest.mark.parametrize(
    "text", ["sonde run --dump-too x", "--dump-too", "sonde ctl watch add --opps x"]
)
def test_an_option_that_is_not_there_is_noticed(text: str) -> None:
    assert missing_option(text) is not None
    assert resolved("sonde.train.Modell") is None


def test_a_command_that_is_not_there_is_noticed() -> None:
    with pytest.raises(UsageError):
        missing_option("sonde rnu --dump-to x")
