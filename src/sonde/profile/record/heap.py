"""Memory that a profiler's events go to, made ready before the first of them.

A page that is new to the process costs the op that touches it first about as much as recording the
op does.
"""

from __future__ import annotations

import torch

_EVENTS_PER_OP = 2.5
_EVENT_BYTES = 300
_LEAST_BYTES = 1 << 20
# glibc keeps blocks up to 32 MiB on its heap, and frees of up to twice the largest of them there.
_MOST_BYTES = 30 << 20


def event_bytes(ops: int, steps: int) -> int:
    """What the events of so many ops in so many steps take, roughly."""
    return int(ops * _EVENTS_PER_OP * _EVENT_BYTES * steps)


def warm_heap(nbytes: int) -> int:
    """Have ``nbytes`` of touched memory free for the next allocations; how many there are.

    Little is not worth it, and much is not kept by the allocator. Harmless where another one than
    glibc's is used.
    """
    if nbytes < _LEAST_BYTES:
        return 0
    size = min(nbytes, _MOST_BYTES)
    for _ in range(2):  # the first comes from the system and goes back, the second stays
        torch.empty(size, dtype=torch.uint8).fill_(0)
    return size
