"""Damage bytes in the ways that files get damaged, and in the ways that attackers choose."""

from __future__ import annotations

import random
from collections.abc import Iterator

_WORDS = (
    b"\xff" * 4,
    b"\xff" * 8,
    b"\x00" * 8,
    b"\x7f\xff\xff\xff\xff\xff\xff\xff",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\x80" * 12,
    b"9" * 20,
    b"-1",
    b"1e999",
    b"NaN",
    b'"',
    b"[[[[[[[[",
    b"{",
    b"\n",
    b",",
)


def mutants(sources: list[bytes], count: int, seed: int) -> Iterator[bytes]:
    """``count`` damaged copies, the same for the same seed."""
    chance = random.Random(seed)
    for _ in range(count):
        data = bytearray(chance.choice(sources))
        for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
            _damage(data, chance, sources)
        yield bytes(data)


def _damage(data: bytearray, chance: random.Random, sources: list[bytes]) -> None:
    # Headers decide most: half of all places are near the beginning.
    reach = len(data) if chance.random() < 0.5 else min(len(data), 400)
    place = chance.randrange(reach + 1)
    kind = chance.randrange(9)
    if kind == 0:
        del data[place:]
    elif kind == 1 and data:
        data[place % len(data)] ^= 1 << chance.randrange(8)
    elif kind == 2 and data:
        data[place % len(data)] = chance.randrange(256)
    elif kind == 3:
        word = chance.choice(_WORDS)
        data[place : place + len(word)] = word
    elif kind == 4:
        data[place:place] = chance.choice(_WORDS)
    elif kind == 5:
        del data[place : place + chance.choice((1, 2, 4, 8, 64))]
    elif kind == 6:
        data[place:place] = data[place : place + chance.choice((1, 8, 64, 512))]
    elif kind == 7:
        other = chance.choice(sources)
        start = chance.randrange(len(other) + 1)
        data[place : place + 64] = other[start : start + 64]
    else:
        data[place:place] = bytes(chance.randrange(256) for _ in range(chance.choice((1, 4, 16))))
