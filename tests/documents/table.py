"""The table of docs/mindspore.md and the index of ``sonde find``, made from the tests:
``python -m tests.documents.table``.

A test that proves an item of MindSpore's five documents says so:

    @pytest.mark.document(22, says="`sink_size` of `model.train`", how="accepted")

Several tests may prove one item and one test several items. ``says`` is what the document
describes, in its own words where they fit in a line; ``how`` is how it is done here, or, for what
cannot exist on this host, why not and what to use instead. Of several tests of an item one gives
both, the others the number alone.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "mindspore.md"
INDEX = ROOT / "src" / "sonde" / "cli" / "mindspore_index.tsv"
BEGIN = "<!-- The tables below are made from the tests: python -m tests.documents.table -->\n"

# The title of each document and what it is about, its first item and its last.
DOCUMENTS = (
    ("Custom Debugging Information: callbacks, metrics, Print, dump, logs", 1, 62),
    ("Network Debugging: updates, losses, learning rates, hyper-parameters", 63, 100),
    ("Using Dump in the Graph Mode", 101, 178),
    ("Debugging and Tuning: accuracy across frameworks, performance", 179, 214),
    ("Using Debugger: MindInsight", 215, 258),
)


@dataclass(frozen=True)
class Proof:
    """One test that proves an item."""

    item: int
    says: str
    how: str
    file: str
    test: str


def marks_in(path: Path) -> Iterator[Proof]:
    """The marks of the tests of a file."""
    text = path.read_text()
    if "mark.document(" not in text:
        return
    file = str(path.relative_to(ROOT))
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for mark in node.decorator_list:
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.document":
                texts = {each.arg: ast.literal_eval(each.value) for each in mark.keywords}
                if not set(texts) <= {"says", "how"}:
                    raise ValueError(f"{file}, {node.name}: a mark has says and how, not {texts}")
                for number in mark.args:
                    item = ast.literal_eval(number)
                    says, how = texts.get("says", ""), texts.get("how", "")
                    yield Proof(item, says, how, file, node.name)


def all_proofs() -> dict[int, list[Proof]]:
    """The tests of each item, by its number."""
    proofs: defaultdict[int, list[Proof]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for proof in marks_in(path):
            proofs[proof.item].append(proof)
    return dict(proofs)


def description(number: int, proofs: list[Proof]) -> Proof:
    """The proof that says what the item is. Raises ValueError if not exactly one does."""
    described = [proof for proof in proofs if proof.says and proof.how]
    if len(described) != 1:
        tests = ", ".join(f"{proof.file}::{proof.test}" for proof in proofs)
        raise ValueError(f"item {number}: one test of {tests} has to give says and how")
    return described[0]


def row(number: int, proofs: list[Proof]) -> str:
    """A line of the table."""
    described = description(number, proofs)
    tests = "<br>".join(f"[{each.test}](../{each.file})" for each in proofs)
    says, how = (text.replace("|", "\\|") for text in (described.says, described.how))
    return f"| {number} | {says} | {how} | {tests} |"


def tables() -> str:
    """The tables of all documents."""
    proofs = all_proofs()
    lines = []
    for title, first, last in DOCUMENTS:
        lines += [f"\n## {title}\n", "| item | the document | here | test |", "|---|---|---|---|"]
        lines += [row(item, proofs[item]) for item in range(first, last + 1) if item in proofs]
    return "\n".join(lines) + "\n"


def index() -> str:
    """What ``sonde find`` searches: a line for each item with document, says and how."""
    proofs = all_proofs()
    lines = []
    for title, first, last in DOCUMENTS:
        for item in sorted(proofs.keys() & range(first, last + 1)):
            found = description(item, proofs[item])
            lines.append(f"{title}\t{found.says}\t{found.how}\n")
    return "".join(lines)


def page() -> str:
    """The whole page: what is written by hand, and the tables."""
    return PAGE.read_text().partition(BEGIN)[0] + BEGIN + tables()


def main() -> int:
    PAGE.write_text(page())
    INDEX.write_text(index())
    return 0


if __name__ == "__main__":
    sys.exit(main())
