"""Answers are cut to their size, the least important first."""

from __future__ import annotations

import pytest

pytest.importorskip("pydantic")

from hypothesis import given, settings
from hypothesis import strategies as st

from sonde.integrations.mcp.answer import (
    MOST_CHARACTERS,
    ToolAnswer,
    shortened,
    text_of,
)

VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=2000),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=60,
)


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=9), VALUES, max_size=12))
def test_no_answer_is_longer_than_allowed(facts: dict[str, object]) -> None:
    answer = ToolAnswer(verdict="found", facts=facts)
    found = shortened(answer)
    assert len(text_of(found)) <= MOST_CHARACTERS
    assert found.truncated == (len(text_of(answer)) > MOST_CHARACTERS)
    if not found.truncated:
        assert found == answer


def test_the_first_elements_of_lists_are_kept() -> None:
    ops = [{"op": f"op{number}", "line": "train.py:1"} for number in range(1000)]
    found = shortened(ToolAnswer(verdict="found", facts={"first_fault": "log", "ops": ops}))
    assert found.truncated
    assert found.facts["first_fault"] == "log"
    assert found.facts["ops"] == ops[: len(found.facts["ops"])]
    assert len(found.facts["ops"]) > 30
