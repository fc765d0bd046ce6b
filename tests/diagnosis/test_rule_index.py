"""One catalogue: every kind that Sonde reports has a page or a place in the index, and the other
way round."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import sonde
from sonde.compare.runs.settings import KIND
from sonde.diagnosis.catalogue import own_rules
from sonde.diagnosis.kinds import CHECKPOINTS, CHECKS, RANKS, SPEED, clause, kinds
from sonde.diagnosis.rule_index import index
from sonde.train.check_findings import _GRADIENT_KINDS

SOURCES = Path(sonde.__file__).parent
DOCS = Path(__file__).parents[2] / "docs"
PAGES = {path.stem for path in (DOCS / "rules").glob("*.md")} - {"README"}
MAKES_FINDINGS: Final = re.compile(r"(^|_)([Ff]inding|UpdateReason)$")
ANSWERS: Final = (
    "compare/losses/",
    "compare/runs/",
    "compare/repetition.py",
    "adapters/torch/replay/",
    "dump/reading/side_files.py",
    "watch/explanations/",
)
"""What these report are answers to a question that was asked, and explanations of one op; the
index links the pages that describe them."""
NO_KINDS: Final = {"error", "warning", "info", "established", "supported", "hypothesis"}
DIRECTIONS: Final = {"data", "framework", "multi-node", "operator"}


def reported() -> Iterator[tuple[str, str]]:
    """Every kind that a call in the package gives to a finding, with its file."""
    for path in sorted(SOURCES.rglob("*.py")):
        name = path.relative_to(SOURCES).as_posix()
        if name.startswith(ANSWERS):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and MAKES_FINDINGS.search(_name(node.func)):
                for text in _texts(node):
                    yield text, name


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _texts(call: ast.Call) -> Iterator[str]:
    """The texts that may be the kind: the first arguments, in both branches of a condition."""
    given = [*call.args[:2], *(each.value for each in call.keywords if each.arg == "rule")]
    for each in given:
        ends = [each.body, each.orelse] if isinstance(each, ast.IfExp) else [each]
        for end in ends:
            text = end.value if isinstance(end, ast.Constant) else None
            if isinstance(text, str) and re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", text):
                yield text


REPORTED = {
    (kind, file) for kind, file in reported() if kind not in NO_KINDS and kind not in DIRECTIONS
}
CAUSES = {"missing", "zero", "underflow", "cleared", "optimizer"}
"""The words of ``check_update`` for a reason, which are not kinds."""


@pytest.mark.parametrize(("kind", "file"), sorted(REPORTED))
def test_every_kind_that_is_reported_is_in_the_catalogue(kind: str, file: str) -> None:
    if file == "train/update_reasons.py" and kind in CAUSES:
        return
    assert kind in kinds()


def test_the_search_finds_the_kinds_of_every_part() -> None:
    found = {kind for kind, _ in REPORTED}
    assert {"double-softmax", "resume-without-optimizer-state", "data-wait"} <= found
    assert {"weight-not-in-optimizer", "broken-weight-tie", "replicas-differ"} <= found
    assert set(CHECKPOINTS) <= found
    by_table = {*_GRADIENT_KINDS.values()}
    assert set(CHECKS) <= found | by_table
    assert set(SPEED) - found <= {"float64", "unaligned", "tried"}  # made from a name


def test_every_kind_has_a_page_and_every_page_a_kind() -> None:
    assert set(kinds()) == PAGES


def test_the_kinds_of_the_parts_do_not_overlap() -> None:
    tables = [set(own_rules()), {KIND}, set(CHECKS), set(CHECKPOINTS), set(SPEED), set(RANKS)]
    assert sum(map(len, tables)) == len(set.union(*tables))


@pytest.mark.parametrize("kind", sorted(kinds()))
def test_a_page_begins_with_the_sentence_of_the_catalogue(kind: str) -> None:
    heading, sentence = (DOCS / "rules" / f"{kind}.md").read_text("utf-8").split("\n\n")[:2]
    assert heading == f"# {kind}"
    assert " ".join(sentence.split()) == kinds()[kind].what


@pytest.mark.parametrize("kind", sorted({*PAGES} - set(own_rules()) - {KIND}))
def test_a_page_has_every_part(kind: str) -> None:
    text = (DOCS / "rules" / f"{kind}.md").read_text("utf-8")
    for part in ("Why it matters", "Evidence", "Silent", "Example", "Source of the bug"):
        assert f"**{part}.**" in text, part
    for link in re.findall(r"\]\(([a-z0-9-]+)\.md\)", text):
        assert link in PAGES, link


def test_the_kinds_of_ranks_are_described_on_their_page() -> None:
    page = (DOCS / "ranks.md").read_text("utf-8")
    assert [kind for kind in RANKS if kind not in page] == []


def test_the_index_is_up_to_date() -> None:
    """``python -m sonde.diagnosis.rule_index docs/rules/README.md`` writes it."""
    assert (DOCS / "rules" / "README.md").read_text("utf-8") == index()


def test_kinds_that_checks_report_have_advice() -> None:
    for kind in {*_GRADIENT_KINDS.values(), *CHECKS} - {"weight-unchanged"}:
        assert kinds()[kind].advice, kind
    assert clause("gradient-zero") == "the gradient of a weight is exactly zero"
