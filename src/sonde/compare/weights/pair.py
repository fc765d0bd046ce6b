"""Pairs the parameters of two networks, also across frameworks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import prod
from typing import Literal

from sonde.compare.parameter_names import Role, canonical_leaf, is_recurrent_part, role_of, tokens
from sonde.compare.weights.fit import Fit, fit
from sonde.compare.weights.order import pair_by_order

Shape = Sequence[int]
Shapes = Mapping[str, Shape]
NameKey = Callable[[str], object]
How = Literal["name", "other name", "order"]


@dataclass(frozen=True, slots=True)
class ParameterPair:
    """Two names of one parameter; ``fit`` brings b to the shape of a.

    ``how``: by the same name; by the corresponding name of the other framework, or the same name
    except for a prefix; or by shape and order.
    """

    a: str
    b: str
    how: How
    fit: Fit


@dataclass(frozen=True, slots=True)
class FlatParameter:
    """A flat parameter of a recurrent layer (MindSpore before 1.6) and the parts it consists of.

    The parts have the order of the flat parameter: matrices layer by layer, then biases.
    """

    flat: str
    parts: tuple[str, ...]
    flat_is_a: bool


@dataclass(frozen=True, slots=True)
class Misshaped:
    """Two names of one parameter whose shapes do not fit."""

    a: str
    b: str
    shape_a: tuple[int, ...]
    shape_b: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ParameterPairing:
    """The pairs of parameters, in the order of a, and the parameters without a counterpart.

    ``only_a`` and ``only_b`` do not contain ``counters`` (``num_batches_tracked``, which MindSpore
    does not have) and the optimizer's ``state_a`` and ``state_b``.
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
        """Every parameter has a counterpart of its shape."""
        return not (self.misshaped or self.only_a or self.only_b)


def pair_parameters(a: Shapes, b: Shapes) -> ParameterPairing:
    """Pair the parameters ``a`` and ``b``, names with shapes in the order of their networks.

    By equal names first, then by corresponding names of the two frameworks (`parameter_names`),
    then by equal ends of names, and the rest by shape and order.
    """
    work = _Work(dict(a), dict(b))
    counters = work.drop_counters()
    work.pair_equal(lambda name: name, lambda name: name, "name")
    state_a, state_b = work.drop("state")
    work.pair_equal(tokens, tokens, "other name")
    prefix_a, prefix_b = _common_prefix(a), _common_prefix(b)
    work.pair_equal(
        lambda name: tokens(name)[prefix_a:], lambda name: tokens(name)[prefix_b:], "other name"
    )
    work.pair_ends()
    work.pair_flat(work.a, work.b, flat_is_a=True)
    work.pair_flat(work.b, work.a, flat_is_a=False)
    for name_a, name_b in pair_by_order(work.a, work.b):
        work.take(name_a, name_b, "order")
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
    """The parameters that are not paired yet, and the results so far."""

    def __init__(self, a: dict[str, Shape], b: dict[str, Shape]) -> None:
        self.a, self.b = a, b
        self._roles = [{name: role_of(name, side) for name in side} for side in (a, b)]
        self.pairs: list[ParameterPair] = []
        self.flat: list[FlatParameter] = []
        self.misshaped: list[Misshaped] = []

    def take(self, a: str, b: str, how: How) -> None:
        shape_a, shape_b = tuple(self.a.pop(a)), tuple(self.b.pop(b))
        found = fit(shape_a, shape_b)
        if found is None:
            self.misshaped.append(Misshaped(a, b, shape_a, shape_b))
        else:
            self.pairs.append(ParameterPair(a, b, how, found))

    def drop(self, role: Role) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Remove the remaining parameters of a role; returns their names on both sides."""
        dropped = []
        for side, roles in zip((self.a, self.b), self._roles, strict=True):
            names = tuple(name for name in side if roles[name] == role)
            for name in names:
                del side[name]
            dropped.append(names)
        return dropped[0], dropped[1]

    def drop_counters(self) -> tuple[str, ...]:
        """Remove the counters if only one side has any."""
        if all("counter" in roles.values() for roles in self._roles):
            return ()
        counters_a, counters_b = self.drop("counter")
        return (*counters_a, *counters_b)

    def pair_equal(self, key_a: NameKey, key_b: NameKey, how: How) -> None:
        """Pair names with the same key, if only one name on each side has it."""
        others = _unique(self.b, key_b)
        for value, name in _unique(self.a, key_a).items():
            if value in others:
                self.take(name, others[value], how)

    def pair_ends(self) -> None:
        """Pair two names if one is the end of the other and no third name matches."""
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

    def pair_flat(
        self, flats: dict[str, Shape], others: dict[str, Shape], *, flat_is_a: bool
    ) -> None:
        """Pair flat parameters of one side with the parts of recurrent layers of the other."""
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
    """The parts of a recurrent layer in the order of the flat parameter."""

    def place(name: str) -> tuple[bool, int, bool, bool]:
        kind, _, rest = canonical_leaf(name.rpartition(".")[2]).partition("_")
        which, _, layer = rest.partition("_l")
        number, _, reverse = layer.partition("_")
        return kind == "bias", int(number), bool(reverse), which == "hh"

    return tuple(sorted(parts, key=place))


def _unique(names: Iterable[str], key: NameKey) -> dict[object, str]:
    found: dict[object, str | None] = {}
    for name in names:
        value = key(name)
        found[value] = None if value in found else name
    return {value: name for value, name in found.items() if name is not None}


def _ends(names: Iterable[str]) -> dict[tuple[str, ...], list[str]]:
    """Every end (of two parts or more) of every name, with the names that have it."""
    found: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        whole = tokens(name)
        for start in range(max(len(whole) - 1, 0)):
            found.setdefault(whole[start:], []).append(name)
    return found


def _common_prefix(names: Iterable[str]) -> int:
    """The number of parts that all names begin with, without their last parts.

    Names of one part, such as global_step, do not count.
    """
    modules = [parts[:-1] for parts in map(tokens, names) if len(parts) > 1]
    columns = zip(*modules, strict=False)
    return sum(1 for _ in takewhile(lambda parts: len(set(parts)) == 1, columns))
