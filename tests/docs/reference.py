"""The pages that are made from the code and from data: ``python -m tests.docs.reference``.

``docs/reference/commands.md`` comes from the commands, ``docs/reference/api.md`` from the
docstrings, ``docs/mindspore-words.md`` from ``docs/mindspore_words.yaml``.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import yaml

import sonde.api
from sonde.cli.main import group

DOCS = Path(__file__).parents[2] / "docs"
WORDS = DOCS / "mindspore_words.yaml"
PAGE = re.compile(r"`?\bdocs/([\w-]+\.md)\b`?")
MADE = "<!-- Made by python -m tests.docs.reference. -->\n"

# A package, and the names that it exports beyond ``__all__``.
PACKAGES = {
    "sonde": ("breakpoint", "print"),
    "sonde.ops": ("Print",),
    "sonde.diagnosis": (),
    "sonde.tune": (),
    "sonde.summary": (),
    "sonde.train": (),
}
NO_OBJECT = {"__version__"}
INTEGRATIONS = {
    "transformers": ("SondeCallback",),
    "lightning": ("SondeCallback", "SondeFabricCallback"),
    "accelerate": ("SondeTracker",),
    "ignite": ("attach",),
    "distributed_debug": ("NumericsHandler",),
    "pytest": ("assert_same_numbers",),
}


def commands_page() -> str:
    """The commands with their options."""
    context = click.Context(group, info_name="sonde", **group.context_settings)
    lines = ["# Commands\n", MADE, "`sonde COMMAND --help` shows the same in a terminal.\n"]
    lines += _command(group, context, 1)
    return "\n".join(lines)


def _command(command: click.Command, context: click.Context, level: int) -> Iterator[str]:
    if level > 1:
        yield f"{'#' * level} {context.command_path}\n"
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"```text\n{context.command_path} {usage}\n```\n"
    yield _help_text(command.help or "")
    # The option that click itself adds has the names of the context that asked for it first.
    names = context.help_option_names
    own = click.Option(names, is_flag=True, help="Show this message and exit.")
    records = [each.get_help_record(context) for each in (*command.params, own)]
    if shown := [record for record in records if record is not None and record[1]]:
        yield "| option | meaning |\n|---|---|"
        yield "\n".join(f"| `{_cell(names)}` | {_escaped(_cell(text))} |" for names, text in shown)
        yield ""
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _command(
                inner, click.Context(inner, info_name=name, parent=context), level + 1
            )


def _help_text(text: str) -> str:
    r"""The text of a command; its parts after ``\b``, which are not wrapped, as code."""
    parts = []
    for paragraph in inspect.cleandoc(text.partition("\f")[0]).split("\n\n"):
        kept, _, as_it_is = paragraph.partition("\b\n")
        parts.append(f"```text\n{as_it_is}\n```" if as_it_is else _escaped(kept))
    return "\n\n".join(parts) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _escaped(text: str) -> str:
    """Text in which words such as ``<name>`` and ``*`` are shown as they are; links to pages."""
    text = re.sub(r"([<*_\[\]])", r"\\\1", text)
    return PAGE.sub(r"[\1](../\1)", text)


def api_page() -> str:
    """The functions and classes of the packages, with their docstrings."""
    lines = ["# Python API\n", MADE]
    for package, more in PACKAGES.items():
        module = importlib.import_module(package)
        lines += [f"## {package}\n", _docstring(module)]
        exported = getattr(module, "__all__", [])
        for name in sorted({*exported, *more} - NO_OBJECT, key=lambda each: (each.lower(), each)):
            lines += _entry(f"{package}.{name}", getattr(module, name), 3)
    lines += [
        "## sonde.integrations\n",
        "Each needs its framework ([integrations](../integrations.md)).\n",
    ]
    for framework, names in INTEGRATIONS.items():
        lines += _integration(framework, names)
    return "\n".join(lines)


def _entry(path: str, found: Any, level: int) -> Iterator[str]:
    """A function, or a class with its own public methods."""
    if inspect.ismodule(found):  # ``sonde.capture`` is a package that can be called.
        found = getattr(sonde.api, path.rpartition(".")[2])
    yield f"{'#' * level} {path}\n"
    yield f"```text\n{path.rpartition('.')[2]}{_signature(found)}\n```\n"
    yield _docstring(found)
    if inspect.isclass(found):
        for name, member in sorted(vars(found).items()):
            member = inspect.unwrap(getattr(member, "__func__", member))
            inner = member.fget if isinstance(member, property) else member
            if name.startswith("_") or not (inspect.isfunction(inner) and inner.__doc__):
                continue
            shown = "" if isinstance(member, property) else _signature(inner, of_class=True)
            yield f"**`{name}{shown}`**: {_docstring(inner)}"


def _signature(found: Any, *, of_class: bool = False) -> str:
    """The names and defaults of the arguments; what they are, the docstring says."""
    nothing = inspect.Parameter.empty
    try:
        signature = inspect.signature(found)
    except (TypeError, ValueError):
        return ""
    arguments = [each.replace(annotation=nothing) for each in signature.parameters.values()]
    plain = inspect.Signature(arguments[1:] if of_class else arguments)
    return re.sub(r" at 0x[0-9a-f]+", "", str(plain))


def _docstring(found: Any) -> str:
    """The docstring as Markdown."""
    own = inspect.getdoc(found) if not inspect.isclass(found) else found.__doc__
    return f"{_markdown(own or '')}\n"


def _markdown(docstring: str) -> str:
    text = inspect.cleandoc(docstring).replace("``", "`")
    return PAGE.sub(r"[\1](../\1)", text)


def _integration(framework: str, names: tuple[str, ...]) -> Iterator[str]:
    """The entries of a module of which the framework need not be installed."""
    place = DOCS.parent / "src" / "sonde" / "integrations" / framework
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    source = file.read_text()
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name in names:
            yield f"### sonde.integrations.{framework}.{node.name}\n"
            yield f"{_markdown(ast.get_docstring(node) or '')}\n"


def words_page() -> str:
    """The words of MindSpore, and where what they mean is described."""
    lines = [
        "# Words of MindSpore\n",
        MADE,
        "What you know by a name of MindSpore or MindInsight, and the page that describes it here.",
        "The search finds the pages by these words, too. [mindspore.md](mindspore.md) goes through",
        "the documents item by item.\n",
        "| MindSpore | here | page |\n|---|---|---|",
    ]
    for entry in yaml.safe_load(WORDS.read_text()):
        page = entry["page"]
        lines.append(f"| {_cell(entry['word'])} | {_cell(entry['here'])} | [{page}]({page}) |")
    return "\n".join(lines) + "\n"


PAGES: dict[Path, Callable[[], str]] = {
    DOCS / "reference" / "commands.md": commands_page,
    DOCS / "reference" / "api.md": api_page,
    DOCS / "mindspore-words.md": words_page,
}


def main() -> int:
    for path, made in PAGES.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(made())
    return 0


if __name__ == "__main__":
    sys.exit(main())
