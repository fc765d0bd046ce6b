"""Damage bytes in the ways that files get damaged, and in the ways that attackers choose."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import msgspec

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


_DEEP: Any = []
for _ in range(200):
    _DEEP = [_DEEP]
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 255, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**64, 10**30),
    *(0.0, -0.0, 1e308, -1e-320, float("nan"), float("inf")),
    *("", "\0", "x" * 300, "\ud800", "../../etc/passwd", "/", ".", "\x1b[2J\n", "nan", "1e999"),
    *("name-regex(", "name-regex(.*)", "name-regex((a+)+!)", "0|5-8", "max > 3 and", "9" * 400),
    *([], {}, [[]], [None], {"": None}, [0, "", {}], ["x"] * 100, _DEEP),
)


def mutants(sources: list[bytes], count: int, seed: int) -> Iterator[bytes]:
    """``count`` damaged copies, the same for the same seed."""
    chance = random.Random(seed)
    for _ in range(count):
        source = chance.choice(sources)
        if chance.random() < 0.5 and (changed := _with_other_values(source, chance)) is not None:
            yield changed
            continue
        data = bytearray(source)
        for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
            _damage(data, chance, sources)
        yield bytes(data)


def _with_other_values(source: bytes, chance: random.Random) -> bytes | None:
    """A document with the right syntax and wrong values; None if it is neither JSON nor
    MessagePack."""
    for decode, encode in (
        (json.loads, _json),
        (msgspec.msgpack.decode, msgspec.msgpack.encode),
    ):
        try:
            value = decode(source)
        except Exception:
            continue
        if isinstance(value, dict | list):
            for _ in range(chance.choice((1, 1, 2, 4))):
                value = _changed(value, chance)
            try:
                return encode(value)
            except Exception:  # MessagePack has no integers beyond 64 bits, and no surrogates
                return None
    return None


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _changed(value: Any, chance: random.Random) -> Any:
    """``value`` with one of the values inside replaced, removed, repeated or wrapped."""
    if isinstance(value, dict) and value and chance.random() < 0.85:
        key = chance.choice(list(value))
        kind = chance.randrange(8)
        changed = dict(value)
        if kind == 0:
            del changed[key]
        elif kind == 1:
            changed[str(chance.choice(_VALUES))[:50]] = changed.pop(key)
        else:
            changed[key] = _changed(value[key], chance)
        return changed
    if isinstance(value, list) and value and chance.random() < 0.85:
        place = chance.randrange(len(value))
        kind = chance.randrange(8)
        if kind == 0:
            return value[:place] + value[place + 1 :]
        if kind == 1:
            return value + value[place:] * chance.choice((1, 50))
        return [*value[:place], _changed(value[place], chance), *value[place + 1 :]]
    return [value] if chance.random() < 0.1 else chance.choice(_VALUES)


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
