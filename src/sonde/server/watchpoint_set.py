"""The watchpoints of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import structs

from sonde.core.errors import UsageError
from sonde.debugger.initial_watchpoints import check_contents, numbered
from sonde.wire.rank import encoder
from sonde.wire.shapes import WatchpointSpec
from sonde.wire.watchpoints import WatchpointDraft, WatchpointFile

MOST_WATCHPOINTS: Final = 500
MOST_CONDITIONS: Final = 20
MOST_PATTERNS: Final = 20_000
MOST_EXPRESSIONS: Final = 100
MOST_TEXT: Final = 10_000
MOST_BYTES: Final = 16 << 20
"""Of all watchpoints together: they are sent to ranks in one message."""


class WatchpointSet:
    """Watchpoints with numbers from 1; a number is never used again."""

    def __init__(self) -> None:
        self._specs: dict[int, WatchpointSpec] = {}
        self._last = 0

    def __iter__(self) -> Iterator[WatchpointSpec]:
        return iter(self._specs.values())

    @property
    def all(self) -> tuple[WatchpointSpec, ...]:
        return tuple(self._specs.values())

    def adopt(self, specs: Iterable[WatchpointSpec]) -> None:
        """Replace all watchpoints by those of a rank, with their numbers."""
        self._specs = {spec.id: spec for spec in specs}
        self._last = max(self._specs, default=0)

    def add(self, draft: WatchpointDraft) -> WatchpointSpec:
        """Add a watchpoint under the next number; UsageError if it is not valid."""
        if len(self._specs) >= MOST_WATCHPOINTS:
            raise _error(f"there are {MOST_WATCHPOINTS} watchpoints already; remove some")
        spec = numbered(self._last + 1, check_draft(draft))
        self._store({**self._specs, spec.id: spec})
        self._last = spec.id
        return spec

    def change(self, number: int, draft: WatchpointDraft) -> WatchpointSpec:
        self.find(number)
        spec = numbered(number, check_draft(draft))
        self._store({**self._specs, number: spec})
        return spec

    def _store(self, specs: dict[int, WatchpointSpec]) -> None:
        """Replace the watchpoints if they can be sent to ranks, else leave them as they are."""
        try:
            size = len(encoder.encode(tuple(specs.values())))
        except (OverflowError, ValueError, TypeError) as error:
            raise _error(str(error)) from None
        if size > MOST_BYTES:
            raise _error(f"all watchpoints together have {size} bytes; at most {MOST_BYTES} fit")
        self._specs = specs

    def remove(self, number: int) -> None:
        self.find(number)
        del self._specs[number]

    def find(self, number: int) -> WatchpointSpec:
        found = self._specs.get(number)
        if found is None:
            raise UsageError(f"there is no watchpoint {number}", slug="no-such-watchpoint")
        return found

    def save(self) -> WatchpointFile:
        return WatchpointFile(tuple(_draft(spec) for spec in self))

    def load(self, file: WatchpointFile) -> None:
        """Replace all watchpoints by those of a file; none is replaced if one is not valid."""
        fresh = WatchpointSet()
        fresh._last = self._last
        for draft in file.watchpoints:
            fresh.add(draft)
        self._specs, self._last = fresh._specs, fresh._last


def check_draft(draft: WatchpointDraft) -> WatchpointDraft:
    """Return the draft; SondeError if a part of it is not valid."""
    if not 1 <= len(draft.conditions) <= MOST_CONDITIONS:
        raise _error(f"it needs a condition, at most {MOST_CONDITIONS}")
    if len(draft.ops) > MOST_PATTERNS or sum(map(len, draft.ops)) > 100 * MOST_TEXT:
        raise _error(f"it names more than {MOST_PATTERNS} ops; name a scope instead")
    if sum("name-regex(" in op for op in draft.ops) > MOST_EXPRESSIONS:
        raise _error(f"it has more than {MOST_EXPRESSIONS} regular expressions; join them with |")
    if len(draft.name) > 200 or len(draft.ranks) > MOST_TEXT:
        raise _error("its name or list of ranks is too long")
    if not 0 <= draft.break_after < 2**31:
        raise _error(f"break_after is {draft.break_after}; 1 stops at every hit, 0 never")
    check_contents(draft)
    return draft


def _draft(spec: WatchpointSpec) -> WatchpointDraft:
    fields = structs.asdict(spec)
    del fields["id"]
    return WatchpointDraft(**fields)


def _error(message: str) -> UsageError:
    return UsageError(f"this watchpoint cannot be set: {message}", slug="watchpoint")
