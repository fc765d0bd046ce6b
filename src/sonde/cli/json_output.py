"""The option ``--json`` of every command: one JSON document on standard output, nothing else there.

An error that ends the command is such a document, too (`print_error`). ``docs/json.md`` has the
schema of each document; `sonde.cli.documents` has their types.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO, TypeVar

import click

from sonde.core.errors import UsageError
from sonde.core.files.atomic_file import write_whole
from sonde.core.text.number_text import json_value

F = TypeVar("F", bound=Callable[..., Any])

OPTION = "--json"

json_option = click.option(
    OPTION,
    "as_json",
    is_flag=True,
    help="Print one JSON document, and nothing else, on standard output (docs/json.md); of an "
    "error, too.",
)

json_file_option = click.option(
    "--json-file", "json_file", metavar="FILE", help="Also write the JSON document to FILE."
)


class _Output:
    """Where documents go; None: to ``sys.stdout`` as it is."""

    documents: TextIO | None = None
    replaced: TextIO | None = None


def print_document(document: Any) -> None:
    """Print a document; numbers that are not finite become texts."""
    stream = _Output.documents or sys.stdout
    stream.write(_text(document))
    stream.flush()


def print_error(slug: str | None, message: str, exit_code: int) -> None:
    """Print the document of an error that ends the command."""
    print_document({"error": {"slug": slug, "message": message, "exit_code": exit_code}})


def write_document(document: Any, *, as_json: bool, json_file: str | None) -> None:
    """Print the document, or write it to a file, or both, or neither, as the options say."""
    if as_json:
        print_document(document)
    if json_file is not None:
        write_file("--json-file", json_file, _text(document))


def write_file(option: str, target: str, data: str | bytes) -> None:
    """Write the file given with an option; UsageError if that fails."""
    try:
        write_whole(Path(target), data)
    except OSError as error:
        raise UsageError(
            f"{option} {target} cannot be written: {error.strerror}", slug="usage"
        ) from None


def reserve_output() -> None:
    """Reserve standard output for documents, for the rest of the process.

    What the user's program, its C++ code and the processes that it starts print from now on goes
    to standard error. Not undone at the end, because a program may print while Python exits.
    """
    if _Output.documents is not None:
        return
    sys.stdout.flush()
    if _is_descriptor(sys.stdout, 1):
        _Output.documents = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
    else:  # Python code has replaced sys.stdout, so that only it can be replaced.
        _Output.documents = _Output.replaced = sys.stdout
        sys.stdout = sys.stderr


def release_replaced_output() -> None:
    """Undo `reserve_output` where it replaced ``sys.stdout``: the caller of `main` goes on."""
    if _Output.replaced is not None:
        sys.stdout = _Output.replaced
        _Output.documents = _Output.replaced = None


def _is_descriptor(stream: TextIO, number: int) -> bool:
    try:
        return stream.fileno() == number
    except (OSError, AttributeError, ValueError):
        return False


def _text(document: Any) -> str:
    return json.dumps(json_value(document), indent=1, allow_nan=False) + "\n"
