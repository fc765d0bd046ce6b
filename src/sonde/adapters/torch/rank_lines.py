"""Prints lines for the user; where several ranks print, each line names its rank."""

from __future__ import annotations

from dataclasses import dataclass

from sonde.adapters.torch.debugging.ranks import world_size
from sonde.core.text.problem_line import ProblemLine
from sonde.logs import say
from sonde.logs.lines import START


@dataclass(slots=True, eq=False)
class RankLines:
    """Prints a line of rank ``rank``: as ``sonde: rank 1: ...`` if there are several ranks.

    ``has_others``: there are others, although neither the launcher nor a process group says so. A
    process group may be gone when the last lines are printed, so that several ranks are remembered.
    """

    rank: int
    has_others: bool = False

    def __call__(self, text: str) -> None:
        self.has_others = self.has_others or world_size() > 1
        if self.has_others and text.startswith(START):
            start = f"{START}rank {self.rank}: "
            if isinstance(text, ProblemLine):
                text = text.with_start(start, instead_of=START)
            else:
                text = f"{start}{text.removeprefix(START)}"
        say(text)
