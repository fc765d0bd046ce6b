"""Scans the pickle of a torch file before torch reads it.

``torch.load(weights_only=True)`` runs no code, but it trusts sizes: this module refuses objects
that are not weights, by name, and storages that claim to be larger than their file.
"""

from __future__ import annotations

import pickletools
import re
from dataclasses import dataclass, field
from typing import Any, Protocol

_GLOBALS = re.compile(
    r"collections (?:OrderedDict|defaultdict|Counter)"
    r"|torch\._utils _rebuild_\w+"
    r"|torch\._tensor _rebuild_from_type_v2"
    r"|torch\.nn\.parameter Parameter"
    r"|torch\.storage (?:UntypedStorage|TypedStorage)"
    r"|torch\.serialization _get_layout"
    r"|torch (?:Size|device|Tensor|\w+Storage|u?int\d+|b?float\d+\w*|complex\d+|bool)"
    r"|_codecs encode"
    r"|(?:builtins|__builtin__) (?:set|complex)"
)
_INTEGERS = frozenset({"BININT", "BININT1", "BININT2", "LONG1", "LONG4", "INT", "LONG"})
_SKIPPED = frozenset({"NONE", "MEMOIZE", "BINPUT", "LONG_BINPUT", "PUT", "TUPLE", "FRAME"})
_TEXTS = frozenset({"BINUNICODE", "SHORT_BINUNICODE", "UNICODE", "BINUNICODE8"})


class Readable(Protocol):
    """Bytes in memory or mapped: reading past the end returns the rest and allocates nothing.

    A buffered file would allocate.
    """

    def read(self, n: int, /) -> bytes: ...
    def readline(self) -> bytes: ...
    def tell(self) -> int: ...


class ForeignObject(ValueError):  # noqa: N818 - it names an object, not a failure
    """A pickle refers to an object that is not a weight; the text names it and its position."""


def scan_pickle(data: Readable, largest: int) -> None:
    """Check the pickle that begins here and read past it.

    ``largest`` is how many elements a storage may have. ForeignObject for what is refused,
    ValueError (or another error of ``pickletools``) for what is no pickle.
    """
    before: tuple[str, Any] = ("", 0)
    texts = _Texts()
    source: Any = data
    for operation, argument, at in pickletools.genops(source):
        name, position = operation.name, at or 0
        texts.note(name, argument)
        if name == "GLOBAL":
            _refuse(str(argument), position)
        elif name == "STACK_GLOBAL":
            _refuse(" ".join(texts.last), position)
        elif name in ("INST", "OBJ", "EXT1", "EXT2", "EXT4", "PERSID", "BYTEARRAY8"):
            raise ForeignObject(f"byte {position}: the operation {name} is not one of weights")
        elif name == "BINPERSID":
            _refuse_large(before, position, largest)
        if name not in _SKIPPED:
            before = (name, argument)


@dataclass(slots=True)
class _Texts:
    """The last two texts on the pickle's stack, also those that come from its memo."""

    last: list[str] = field(default_factory=list)
    memo: dict[int, str | None] = field(default_factory=dict)
    newest: str | None = None

    def note(self, name: str, argument: Any) -> None:
        if name == "MEMOIZE":
            self.memo[len(self.memo)] = self.newest
        elif name in ("BINPUT", "LONG_BINPUT", "PUT"):
            self.memo[int(argument)] = self.newest
        else:
            self.newest = None
            if name in _TEXTS:
                self.newest = str(argument)
            elif name in ("BINGET", "LONG_BINGET", "GET"):
                self.newest = self.memo.get(int(argument))
            if self.newest is not None:
                self.last = [*self.last[-1:], self.newest]


def _refuse(name: str, position: int) -> None:
    if not _GLOBALS.fullmatch(name):
        raise ForeignObject(
            f"byte {position}: it asks for {'.'.join(name.split())[:80]}, which is not a weight"
        )


def _refuse_large(before: tuple[str, Any], position: int, largest: int) -> None:
    """A storage is named by a tuple that ends with the number of its elements."""
    name, argument = before
    if name not in _INTEGERS:
        raise ForeignObject(f"byte {position}: a storage without a size")
    if not 0 <= int(argument) <= largest:
        raise ForeignObject(
            f"byte {position}: a storage of {argument} elements in a file of {largest} bytes"
        )
