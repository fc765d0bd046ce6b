"""``sonde find``: how something that MindSpore's documents describe is done with Sonde."""

from __future__ import annotations

import re
from importlib import resources
from itertools import groupby
from typing import NamedTuple

import click

from sonde.cli.json_output import json_option, print_document
from sonde.core.errors import UsageError
from sonde.core.settings import nearest
from sonde.core.text.terminal_text import quoted

INDEX = "mindspore_index.tsv"
"""One line per item: the document, what it describes, how it is done with Sonde. It is made from
the tests, as is the table of docs/mindspore.md."""

EPILOG = """\b
Examples:
  sonde find SummaryCollector          a class of MindSpore
  sonde find iteration                 a key of the dump configuration
  sonde find Continue to               words on the page of MindInsight
  sonde find GLOG_v                    an environment variable
"""


class DocumentItem(NamedTuple):
    """Something that a document describes."""

    document: str
    says: str
    how: str


@click.command(epilog=EPILOG)
@click.argument("words", metavar="WORDS...", nargs=-1)
@json_option
def find(words: tuple[str, ...], as_json: bool) -> None:
    """Find how something that MindSpore's documents describe is done with Sonde.

    Prints every item of the five documents in which all WORDS occur: what the document says, and
    below it the command, option, function or file to use. Case does not matter, and _ is a blank.
    docs/mindspore.md has all items, with the test that proves each.
    """
    if not "".join(words).strip():
        message = "no words given: sonde find WORDS..., such as 'sonde find LossMonitor'"
        raise UsageError(message, slug="usage")
    for word in words:
        if not re.search(r"\w", word):
            message = f"{quoted(word)} has no letter or digit to look for; give words"
            raise UsageError(message, slug="nothing-found")
    known = _items()
    found = [item for item in known if _has_all(item, words)]
    if not found:
        raise UsageError(_nothing_found(words, known), slug="nothing-found")
    if as_json:
        print_document({"items": [item._asdict() for item in found]})
        return
    for document, items in groupby(found, key=lambda item: item.document):
        click.echo(document)
        for item in items:
            click.echo(f"  {item.says}\n      {item.how}".replace("`", ""))


def _items() -> list[DocumentItem]:
    text = resources.files("sonde.cli").joinpath(INDEX).read_text("utf-8")
    return [DocumentItem(*line.split("\t")) for line in text.splitlines()]


def _folded(text: str) -> str:
    return re.sub(r"[\s_]+", " ", text.replace("`", "")).lower()


def _has_all(item: DocumentItem, words: tuple[str, ...]) -> bool:
    text = _folded(" ".join(item))
    return all(_folded(word) in text for word in words)


def _nothing_found(words: tuple[str, ...], known: list[DocumentItem]) -> str:
    """The first word that no item has, with the nearest one; else that no item has them all."""
    for word in words:
        if not any(_has_all(item, (word,)) for item in known):
            vocabulary = {each for item in known for each in re.findall(r"\w+", " ".join(item))}
            near = nearest(word, vocabulary)
            return f"nothing in MindSpore's documents has {quoted(word)}{near}"
    listed = ", ".join(map(quoted, words))
    return f"no item of MindSpore's documents has all of {listed}; use fewer words"
