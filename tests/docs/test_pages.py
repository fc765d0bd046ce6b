"""The pages name every message and option of the program, and nothing else."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import click
import torch

from sonde.capture.config import load_config
from sonde.capture.config_fields import CONFIG_KEYS
from sonde.cli.run import run
from sonde.core.errors import TESTED_TORCH
from sonde.core.statistics import CATEGORIES
from sonde.watch.conditions import CATALOGUE

ROOT = Path(__file__).parents[2]
MESSAGES = (ROOT / "docs" / "messages.md").read_text()
CONFIG = (ROOT / "docs" / "config.md").read_text()

SAID = re.compile(r"(?:^|\s)\[([a-z][a-z0-9]*(?:-[a-z0-9]+)*)\]\n?$")


def slugs_in(tree: ast.AST) -> Iterator[str]:
    """Slugs given as ``slug="..."``, as a default of a parameter, in a statement
    ``slug = ... or "..."``, or at the end of a message."""
    names = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Assign)}
    for node in ast.walk(tree):
        if id(node) in names:
            continue  # A named constant, such as a marker in a file, is not a message.
        if isinstance(node, ast.keyword) and node.arg == "slug":
            if isinstance(node.value, ast.Constant):
                yield str(node.value.value)
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "slug":
            values = node.value.values if isinstance(node.value, ast.BoolOp) else [node.value]
            yield from (str(each.value) for each in values if isinstance(each, ast.Constant))
        elif isinstance(node, ast.arguments):
            defaults = dict(zip(node.kwonlyargs, node.kw_defaults, strict=True))
            for argument, default in defaults.items():
                if argument.arg == "slug" and isinstance(default, ast.Constant) and default.value:
                    yield str(default.value)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            match = SAID.search(node.value)
            if match is not None:
                yield match[1]


def used_slugs() -> dict[str, str]:
    """Every slug of the sources, and a file that uses it."""
    return {
        slug: str(path.relative_to(ROOT))
        for path in sorted((ROOT / "src").rglob("*.py"))
        for slug in slugs_in(ast.parse(path.read_text()))
    }


def headings(page: str, level: int) -> list[str]:
    return re.findall(rf"(?m)^{'#' * level} (.+)$", page)


def test_the_pages_claim_the_torch_that_the_tests_run_with() -> None:
    assert torch.__version__.startswith(f"{TESTED_TORCH}.")
    assert f"PyTorch {TESTED_TORCH};" in (ROOT / "README.md").read_text()
    assert f"torch=={TESTED_TORCH}.*" in MESSAGES


def test_every_slug_has_a_heading() -> None:
    known = headings(MESSAGES, 3)
    missing = {slug: file for slug, file in used_slugs().items() if slug not in known}
    assert missing == {}, "add a heading to docs/messages.md"


def test_every_heading_is_a_slug_that_is_used_and_occurs_once() -> None:
    known = headings(MESSAGES, 3)
    assert len(known) == len(set(known))
    assert set(known) - used_slugs().keys() == set()


def test_every_heading_has_an_explanation() -> None:
    for section in re.split(r"(?m)^### ", MESSAGES)[1:]:
        slug, _, text = section.partition("\n")
        assert len(text.partition("\n#")[0].split()) >= 5, f"{slug} needs a sentence"


def test_every_key_of_the_configuration_has_a_heading_in_its_section() -> None:
    sections = dict(
        re.findall(r"(?ms)^## (\w+_dump_settings)\n(.*?)(?=^## )", CONFIG),
    )
    assert {name: set(headings(text, 3)) for name, text in sections.items()} == {
        name: set(keys) for name, keys in CONFIG_KEYS.items()
    }


def test_every_statistic_and_every_option_of_run_is_on_the_page() -> None:
    for name in CATEGORIES:
        assert f"`{name}`" in CONFIG
    for option in run.params:
        if isinstance(option, click.Option) and option.name != "help":
            assert f"`{option.opts[0]}" in CONFIG or f" {option.opts[0]}" in CONFIG, option.opts


def test_the_example_on_the_page_is_accepted(tmp_path: Path) -> None:
    match = re.search(r"(?s)```json\n(.*?)```", CONFIG)
    assert match is not None
    example = json.loads(match[1])
    example["common_dump_settings"]["path"] = str(tmp_path)
    (tmp_path / "dump.json").write_text(json.dumps(example))
    config = load_config(tmp_path / "dump.json", {})
    assert str(config.selection.steps) == "0|5-8|100-120"


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_readme_has_the_number_of_conditions() -> None:
    shown = re.search(r"(\d+) conditions", (ROOT / "README.md").read_text())
    assert shown is not None
    assert int(shown[1]) == len(CATALOGUE)
