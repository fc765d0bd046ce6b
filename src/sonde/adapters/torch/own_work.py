"""How much of a training's time is ours: what is done in our own code."""

from __future__ import annotations

from types import TracebackType

from sonde.adapters.torch.memory import Tables


class OwnWork:
    """What is done in blocks of this is our work, not the training's; blocks may lie in each
    other. Used from the training thread only."""

    __slots__ = ("_began", "_tables")

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._began: list[bool] = []

    def __enter__(self) -> None:
        self._began.append(self._tables.begin_work())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._began.pop():
            self._tables.end_work()
