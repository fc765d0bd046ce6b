"""The numbers of ranks in a sentence."""

from __future__ import annotations

from collections.abc import Iterable


def ranks_text(ranks: Iterable[int]) -> str:
    """``rank 1``, ``ranks 0-3, 7``."""
    listed = sorted(ranks)
    parts: list[str] = []
    start = 0
    for number in range(1, len(listed) + 1):
        if number < len(listed) and listed[number] == listed[number - 1] + 1:
            continue
        first, last = listed[start], listed[number - 1]
        parts.append(str(first) if first == last else f"{first}-{last}")
        start = number
    return f"rank{'s' if len(listed) > 1 else ''} {', '.join(parts)}"
