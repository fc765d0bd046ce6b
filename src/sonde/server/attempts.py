"""Against guessing a token: after several wrong ones, those of an address are looked at slowly.

A right token does not clear its address: who guesses may share it with somebody who knows.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

FREE: Final = 10
"""Wrong tokens of one address that cost nothing."""
SLOT_SECONDS: Final = 0.5
"""From then on one token is looked at in so long."""
MOST_WAITING: Final = 20
MEMORY_SECONDS: Final = 300.0
"""An address that has given no wrong token for so long starts anew."""
MOST_ADDRESSES: Final = 1000
"""Of more, those that failed longest ago are forgotten."""


@dataclass(slots=True)
class _Record:
    failures: int = 0
    last: float = 0.0
    next_slot: float = 0.0


class Attempts:
    """Wrong tokens by address. Used in the event loop's thread only. ``clock`` only grows."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._records: OrderedDict[str, _Record] = OrderedDict()

    def __len__(self) -> int:
        return len(self._records)

    def delay(self, address: str) -> float | None:
        """The seconds to wait before the next token of this address is looked at; None if so many
        wait already that it is not looked at."""
        record = self._records.get(address)
        now = self._clock()
        if record is None or record.failures < FREE:
            return 0.0
        if now - record.last > MEMORY_SECONDS:
            del self._records[address]
            return 0.0
        slot = max(now, record.next_slot)
        if slot - now >= MOST_WAITING * SLOT_SECONDS:
            return None
        record.next_slot = slot + SLOT_SECONDS
        return record.next_slot - now

    def failed(self, address: str) -> None:
        record = self._records.setdefault(address, _Record())
        now = self._clock()
        if now - record.last > MEMORY_SECONDS:
            record.failures = 0
        record.failures += 1
        record.last = now
        self._records.move_to_end(address)
        while len(self._records) > MOST_ADDRESSES:
            self._records.popitem(last=False)
