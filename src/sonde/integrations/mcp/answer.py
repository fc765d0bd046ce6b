"""The answer of a tool: the verdict first, short enough for the context of a language model."""

from __future__ import annotations

import json
from typing import Any, Final

from pydantic import BaseModel, Field

MOST_CHARACTERS: Final = 5_000
"""Of an answer as compact JSON. Such text has at least 2.5 characters per token with the usual
tokenizers, which makes it less than 2,000 tokens."""
_MOST_TEXT: Final = 600
_LEAST_TEXT: Final = 80


class NextCall(BaseModel):
    """A tool call that would narrow the answer, or act on it."""

    tool: str
    arguments: dict[str, Any]
    why: str


class ToolAnswer(BaseModel):
    """What every tool returns. ``facts`` are ordered by importance; their lists, too, so that what
    is left out if ``truncated`` is what matters least."""

    verdict: str = Field(description="The result in one sentence")
    facts: dict[str, Any] = Field(description="The evidence, the most important first")
    truncated: bool = Field(default=False, description="Something was left out; see next")
    next: list[NextCall] = Field(default_factory=list, description="Calls that would narrow it")


def text_of(answer: ToolAnswer) -> str:
    """The answer as compact JSON."""
    return json.dumps(answer.model_dump(), separators=(",", ":"), ensure_ascii=False)


def shortened(answer: ToolAnswer) -> ToolAnswer:
    """The answer, with its longest lists and texts cut until it has `MOST_CHARACTERS`."""
    room = MOST_CHARACTERS - len(text_of(answer.model_copy(update={"facts": {}})))
    facts = dict(answer.facts)
    truncated = answer.truncated
    longest = _MOST_TEXT
    while len(_compact(facts)) > room:
        truncated = True
        if not _halve_longest(facts):
            facts = _with_short_texts(facts, longest)
            if longest <= _LEAST_TEXT:
                facts = _whole_ones(facts, room)
                break
            longest //= 2
    return answer.model_copy(update={"facts": facts, "truncated": truncated})


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _halve_longest(facts: dict[str, Any]) -> bool:
    """Replace the longest list (as text) by its first half; False if all have one element."""
    found: list[tuple[int, Any, Any, list[Any]]] = []

    def visit(owner: Any, key: Any, value: Any) -> None:
        if isinstance(value, dict):
            for name, each in value.items():
                visit(value, name, each)
        elif isinstance(value, list):
            if len(value) > 1:
                found.append((len(_compact(value)), owner, key, value))
            for place, each in enumerate(value):
                visit(value, place, each)

    for name, value in facts.items():
        visit(facts, name, value)
    if not found:
        return False
    _, owner, key, value = max(found, key=lambda each: each[0])
    owner[key] = value[: (len(value) + 1) // 2]
    return True


def _with_short_texts(value: Any, longest: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= longest else f"{value[:longest]}..."
    if isinstance(value, dict):
        return {name: _with_short_texts(each, longest) for name, each in value.items()}
    if isinstance(value, list):
        return [_with_short_texts(each, longest) for each in value]
    return value


def _whole_ones(facts: dict[str, Any], room: int) -> dict[str, Any]:
    """The first facts that fit together."""
    kept: dict[str, Any] = {}
    for name, value in facts.items():
        if len(_compact({**kept, name: value})) <= room:
            kept[name] = value
    return kept
