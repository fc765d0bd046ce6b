"""Every command has ``--json`` and a schema, and reports its errors as JSON, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.cli.ctl.test_documents import COVERED as OF_SERVER
from tests.cli.documents.printed import SCHEMAS, of_error
from tests.cli.documents.test_documents_of_files import COVERED as OF_FILES
from tests.cli.documents.test_documents_of_programs import COVERED as OF_PROGRAMS

from sonde.cli.documents.schemas import DOCUMENTS, WITHOUT, files, page
from sonde.cli.main import group, main

PAGE = Path(__file__).parents[3] / "docs" / "json.md"


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, set[str]]]:
    """Every command that is no group, with the names of its options."""
    if not isinstance(command, click.Group):
        yield " ".join(path), {name for each in command.params for name in each.opts}
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        yield from leaves(inner, (*path, name))


COMMANDS = dict(leaves(group))


def test_every_command_has_the_option_and_a_schema_or_a_reason() -> None:
    assert {name for name, options in COMMANDS.items() if "--json" in options} == {*DOCUMENTS}
    assert COMMANDS.keys() == {*DOCUMENTS, *WITHOUT}


def test_the_documents_of_every_command_are_validated_by_a_test() -> None:
    assert {*OF_FILES, *OF_PROGRAMS, *OF_SERVER} == {*DOCUMENTS}


def test_the_files_in_docs_are_those_of_the_types() -> None:
    written = {path.name: path.read_text() for path in SCHEMAS.iterdir()}
    assert written == files(), "run python -m sonde.cli.documents.schemas docs"
    assert PAGE.read_text() == page(PAGE.read_text())


@pytest.mark.parametrize("command", DOCUMENTS)
def test_a_wrong_option_is_an_error_document(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command.split(), "--json", "--no-such-option"]) == 2
    out, err = capsys.readouterr()
    error = of_error(out)
    assert (error["slug"], error["exit_code"]) == ("usage", 2)
    assert "no-such-option" in error["message"]
    assert err.count("\n") == 1
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "slug"),
    [
        (["show", "nowhere", "--json"], "no-dump"),
        (["run", "--json", "nowhere.py"], "program-not-found"),
        (["run", "--json"], "usage"),
        (["--json", "runn"], "usage"),
        (["ctl", "--server", "127.0.0.1:1", "status", "--json"], "no-server"),
        (["find", "--json"], "usage"),
    ],
)
def test_errors_of_other_kinds_are_documents(
    words: list[str],
    slug: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert of_error(capsys.readouterr().out)["slug"] == slug


def test_the_option_of_the_users_program_is_not_that_of_the_command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", "nowhere.py", "--json"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "[program-not-found]" in err
