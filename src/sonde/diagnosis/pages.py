"""The documentation of the rules: one page for each kind."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sonde.diagnosis.rule import KIND

_FOLDERS: Final = (
    Path(__file__).parent / "pages",  # in an installed package
    Path(__file__).parents[3] / "docs" / "rules",  # in a checkout
)


def rule_page(kind: str) -> str | None:
    """The page about ``kind`` as Markdown; None if there is none, as for a rule of the user. The
    variants of ``sonde profile --try`` have one page."""
    if KIND.fullmatch(kind) is None:
        return None
    kind = "tried" if kind.startswith("tried-") else kind
    found = next((path for each in _FOLDERS if (path := each / f"{kind}.md").is_file()), None)
    return None if found is None else found.read_text("utf-8")
