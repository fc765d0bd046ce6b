"""The server's JSON answers about watchpoints: conditions, presets, previews, sets of them."""

from __future__ import annotations

from typing import Literal

from sonde.wire.numbers import Integer, Number
from sonde.wire.shapes import Category, ConditionSpec, Plain, WatchpointSpec


class WatchpointWarning(Plain, frozen=True):
    """Text to show about watchpoint ``id``: its patterns match nothing in the ops seen so far."""

    id: Integer
    text: str


class ParameterInfo(Plain, frozen=True):
    """One parameter of a condition; ``check``: measured values are compared with it."""

    name: str
    check: bool
    default: float | None
    lowest: Number
    highest: Number
    description: str


class ConditionInfo(Plain, frozen=True):
    id: str
    title: str
    abbreviation: str
    target: Category
    formula: str
    description: str
    advice: str
    parameters: tuple[ParameterInfo, ...]


class PresetInfo(Plain, frozen=True):
    """A set of watchpoints for one purpose. ``finds`` completes "watches for"; ``names`` are those
    of its watchpoints; ``cost``: how many times longer a step takes, as a text."""

    id: str
    title: str
    finds: str
    names: tuple[str, ...]
    cost: str


class Catalogue(Plain, frozen=True):
    """Every watch condition, the names that an expression may use, and the presets."""

    conditions: tuple[ConditionInfo, ...]
    expression_names: tuple[str, ...]
    presets: tuple[PresetInfo, ...]


class Preview(Plain, frozen=True):
    """What a watchpoint would have hit in step ``step``: ``hits`` of the ``judged`` tensors that it
    applies to, ``examples`` names some. ``undecided``: of how many others that cannot be told from
    statistics alone; they are not in ``judged``. ``step`` None: nothing has been recorded yet."""

    step: Integer | None
    judged: Integer
    hits: Integer
    undecided: Integer
    examples: tuple[str, ...] = ()


class WatchpointDraft(Plain, frozen=True):
    """A watchpoint without an id: a new one, or the new content of an existing one."""

    name: str
    conditions: tuple[ConditionSpec, ...]
    ops: tuple[str, ...] = ()
    join: Literal["any", "all"] = "any"
    enabled: bool = True
    break_after: Integer = 1
    ranks: tuple[Integer, ...] = ()


class WatchpointAnswer(WatchpointSpec, frozen=True):
    """A watchpoint as it was set. ``warning``: text to show, such as that no op matches its
    patterns; else empty."""

    warning: str = ""


class WatchpointList(Plain, frozen=True):
    watchpoints: tuple[WatchpointSpec, ...]
    warnings: tuple[WatchpointWarning, ...] = ()


class WatchpointFile(Plain, frozen=True):
    """A saved set of watchpoints."""

    watchpoints: tuple[WatchpointDraft, ...]
    version: Literal[1] = 1
