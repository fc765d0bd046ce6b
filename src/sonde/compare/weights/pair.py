"""Pairing the parameters of two networks, also across frameworks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

from sonde.compare.parameter_names import canonical_leaf, is_recurrent_part, role_of, tokens
from sonde.compare.weights.fit import Fit, fit
from sonde.compare.weights.order import align

Shape = Sequence[int]
Shapes = Mapping[str, Shape]
How = Literal["name", "other name", "order"]


@dataclass(frozen=True, slots=True)
class ParameterPair:
    """Two names of one parameter; ``fit`` brings b to the shape of a.

    ``how``: the same name; the name the other framework has for it, or the same but for a prefix;
    or, where names say nothing, shape and order.
    """

    a: str
    b: str
    how: How
    fit: Fit


@dataclass(frozen=True, slots=True)
class FlatParameter:
    """One flat parameter of a recurrent layer (MindSpore before 1.6) and its parts elsewhere.

    The parts are in the order they have in it: matrices layer by layer, then biases.
    """

    flat: str
    parts: tuple[str, ...]
    flat_is_a: bool


@dataclass(frozen=True, slots=True)
class Misshaped:
    """Two names of one parameter whose shapes cannot be brought together."""

    a: str
    b: str
    shape_a: tuple[int, ...]
    shape_b: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ParameterPairing:
    """Which parameters belong together, in the order of a, and which have no partner.

    Left out of ``only_a`` and ``only_b``: ``counters`` (``num_batches_tracked``, which MindSpore
    has not) and the optimizer's ``state_a`` and ``state_b``.
    """

    pairs: tuple[ParameterPair, ...]
    flat: tuple[FlatParameter, ...]
    misshaped: tuple[Misshaped, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    counters: tuple[str, ...]
    state_a: tuple[str, ...]
    state_b: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        """Every parameter has a partner of its shape."""
        return not (self.misshaped or self.only_a or self.only_b)


def pair_parameters(a: Shapes, b: Shapes) -> ParameterPairing:
    """Pair the parameters ``a`` and ``b``, names with shapes in the order of their networks.

    By equal names first, then by the names the two frameworks have for the same thing
    (``naming``), then by equal ends of names, and what is left by shape and order.
    """
    work = _Work(dict(a), dict(b))
    counters = work.drop_counters()
    work.pair_equal(lambda name: name, "name")
    state_a, state_b = work.drop_state()
    work.pair_equal(tokens, "other name")
    prefixes = _common_prefix(map(tokens, a)), _common_prefix(map(tokens, b))
    work.pair_stripped(*prefixes)
    work.pair_ends()
    work.pair_flat()
    for name_a, name_b, found in align(work.a, work.b):
        work.take(name_a, name_b, "order", found)
    place = {name: position for position, name in enumerate(a)}
    return ParameterPairing(
        tuple(sorted(work.pairs, key=lambda pair: place[pair.a])),
        tuple(work.flat),
        tuple(work.misshaped),
        tuple(work.a),
        tuple(work.b),
        counters,
        state_a,
        state_b,
    )


class _Work:
    """The parameters that have no partner yet, and what has been found."""

    def __init__(self, a: dict[str, Shape], b: dict[str, Shape]) -> None:
        self.a, self.b = a, b
        self._names_a, self._names_b = frozenset(a), frozenset(b)
        self.pairs: list[ParameterPair] = []
        self.flat: list[FlatParameter] = []
        self.misshaped: list[Misshaped] = []

    def take(self, a: str, b: str, how: How, found: Fit | None = None) -> None:
        shape_a, shape_b = tuple(self.a.pop(a)), tuple(self.b.pop(b))
        found = found or fit(shape_a, shape_b)
        if found is None:
            self.misshaped.append(Misshaped(a, b, shape_a, shape_b))
        else:
            self.pairs.append(ParameterPair(a, b, how, found))

    def drop_counters(self) -> tuple[str, ...]:
        """Counters that only one side has."""
        counters_a = [name for name in self.a if role_of(name, self._names_a) == "counter"]
        counters_b = [name for name in self.b if role_of(name, self._names_b) == "counter"]
        if counters_a and counters_b:
            return ()
        for name in counters_a:
            del self.a[name]
        for name in counters_b:
            del self.b[name]
        return (*counters_a, *counters_b)

    def drop_state(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What is left of the optimizers'."""
        state_a = tuple(name for name in self.a if role_of(name, self._names_a) == "state")
        state_b = tuple(name for name in self.b if role_of(name, self._names_b) == "state")
        for name in state_a:
            del self.a[name]
        for name in state_b:
            del self.b[name]
        return state_a, state_b

    def pair_equal(self, key: Callable[[str], object], how: How) -> None:
        """Pair names with the same key, where only one on each side has it."""
        others = _unique(self.b, key)
        for value, name in _unique(self.a, key).items():
            if value in others:
                self.take(name, others[value], how)

    def pair_stripped(self, prefix_a: int, prefix_b: int) -> None:
        """Pair names that are the same without what all names of their side begin with."""
        if not (prefix_a or prefix_b):
            return
        others = _unique(self.b, lambda name: tokens(name)[prefix_b:])
        for value, name in _unique(self.a, lambda name: tokens(name)[prefix_a:]).items():
            if value in others:
                self.take(name, others[value], "other name")

    def pair_ends(self) -> None:
        """Pair names one of which is the end of the other, where that is so of only two."""
        ends_a, ends_b = _ends(self.a), _ends(self.b)
        for name in list(self.a):
            whole = tokens(name)
            candidates = set(ends_b.get(whole, ()))
            for start in range(1, len(whole) - 1):
                candidates |= {
                    other
                    for other in ends_b.get(whole[start:], ())
                    if tokens(other) == whole[start:]
                }
            candidates &= self.b.keys()
            if len(candidates) == 1 and len(whole) > 1:
                (other,) = candidates
                rivals = set(ends_a.get(tokens(other), ())) & self.a.keys()
                if rivals <= {name} and fit(self.a[name], self.b[other]) is not None:
                    self.take(name, other, "other name")

    def pair_flat(self) -> None:
        """Pair a flat parameter of a recurrent layer with the parts of one of the other side."""
        self._pair_flat(self.a, self.b, flat_is_a=True)
        self._pair_flat(self.b, self.a, flat_is_a=False)

    def _pair_flat(
        self, flats: dict[str, Shape], others: dict[str, Shape], *, flat_is_a: bool
    ) -> None:
        groups: dict[str, list[str]] = {}
        for name in others:
            if is_recurrent_part(name):
                groups.setdefault(name.rpartition(".")[0], []).append(name)
        for flat, shape in list(flats.items()):
            if sum(size != 1 for size in shape) != 1:
                continue
            for module, parts in groups.items():
                if sum(prod(others[part]) for part in parts) == prod(shape):
                    self.flat.append(FlatParameter(flat, flat_order(parts), flat_is_a))
                    del flats[flat]
                    for part in parts:
                        del others[part]
                    del groups[module]
                    break


def flat_order(parts: Iterable[str]) -> tuple[str, ...]:
    """The parts of a recurrent layer as they follow each other in a flat one."""

    def place(name: str) -> tuple[bool, int, bool, bool]:
        kind, _, rest = canonical_leaf(name.rpartition(".")[2]).partition("_")
        which, _, layer = rest.partition("_l")
        number, _, reverse = layer.partition("_")
        return kind == "bias", int(number), bool(reverse), which == "hh"

    return tuple(sorted(parts, key=place))


def _unique(names: Iterable[str], key: Callable[[str], object]) -> dict[object, str]:
    found: dict[object, str | None] = {}
    for name in names:
        value = key(name)
        found[value] = None if value in found else name
    return {value: name for value, name in found.items() if name is not None}


def _ends(names: Iterable[str]) -> dict[tuple[str, ...], list[str]]:
    """Every end of every name, of two parts or more, with the names that have it."""
    found: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        whole = tokens(name)
        for start in range(max(len(whole) - 1, 0)):
            found.setdefault(whole[start:], []).append(name)
    return found


def _common_prefix(names: Iterable[tuple[str, ...]]) -> int:
    """How many parts all names begin with; the last part of a name is never one."""
    found: tuple[str, ...] | None = None
    for name in names:
        if len(name) < 2:
            continue  # global_step and its like
        parts = name[:-1]
        if found is None:
            found = parts
        same = 0
        for ours, theirs in zip(found, parts, strict=False):
            if ours != theirs:
                break
            same += 1
        found = found[:same]
    return len(found or ())
