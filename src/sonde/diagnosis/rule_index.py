"""The index of all rules, ``docs/rules/README.md``.

``python -m sonde.diagnosis.rule_index docs/rules/README.md`` writes it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from sonde.diagnosis.catalogue import own_rules
from sonde.diagnosis.kinds import CHECKPOINTS, CHECKS, RANKS, SPEED, RuleText, kinds

_GROUPS: Final = {
    "data": "Data",
    "loop": "The training loop",
    "losses": "Losses and masks",
    "parameters": "Parameters",
    "precision": "Numbers",
    "ranks": "Several ranks",
    "states": "States and checkpoints",
}
_HEAD: Final = """\
# Rules

Every kind of finding that Sonde reports, by the part that reports it first. A kind means the same
everywhere: `sonde diagnose`, the debugger's page, `overflow.json`, the checks and callbacks of
`sonde.train`, `sonde ckpt check`, `sonde profile` and `sonde run --check-ranks` use the same names.
This page is made by
`python -m sonde.diagnosis.rule_index docs/rules/README.md`.
"""
_TAIL: Final = """\
## Elsewhere

- The conditions of watchpoints: [conditions.md](../conditions.md). The causes of NaN and Inf by
  op: [origins.md](../origins.md).
- Answers to a question that was asked are no rules: where two runs first differ
  ([compare.md](../compare.md)), how two loss curves differ ([losses.md](../losses.md)), what makes
  two runs differ ([determinism.md](../determinism.md)), what changes a captured step
  ([replay.md](../replay.md)).
"""


def index() -> str:
    """The text of the page."""
    parts = [_HEAD, "## Why a training fails: `sonde diagnose`\n"]
    for folder, title in _GROUPS.items():
        chosen = {kind: kinds()[kind] for kind in own_rules() if _folder(kind) == folder}
        parts.append(f"### {title}\n\n" + "\n".join(_lines(chosen)) + "\n")
    single = {"differs-from-reference": kinds()["differs-from-reference"]}
    parts.append("### Against a reference\n\n" + "\n".join(_lines(single)) + "\n")
    for title, listed in (
        ("The checks of `sonde.train`", CHECKS),
        ("Checkpoints: `sonde ckpt check`", CHECKPOINTS),
        ("Speed: `sonde profile`", SPEED),
        ("Ranks: `sonde run --check-ranks`", RANKS),
    ):
        parts.append(f"## {title}\n\n" + "\n".join(_lines(listed)) + "\n")
    return "\n".join([*parts, _TAIL])


def _folder(kind: str) -> str:
    return own_rules()[kind].judge.__module__.split(".")[-2]


def _lines(listed: Mapping[str, RuleText]) -> Iterator[str]:
    return (f"- [{kind}]({kind}.md): {rule.what}" for kind, rule in listed.items())


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(index(), "utf-8")
