"""Presets are sets of recommended watchpoints."""

from __future__ import annotations

import pytest

from sonde.core.errors import UsageError
from sonde.watch.conditions import DEFAULT_PRESETS, PRESETS, RECOMMENDED, watchpoints_of


def test_every_preset_names_watchpoints_that_exist() -> None:
    known = {each.name for each in RECOMMENDED}
    for preset in PRESETS.values():
        assert preset.names
        assert known.issuperset(preset.names)
    assert watchpoints_of(["recommended"]) == RECOMMENDED


def test_several_presets_give_each_watchpoint_once() -> None:
    assert [each.name for each in watchpoints_of(DEFAULT_PRESETS)] == [
        "tensors are not finite",
        "tanh is saturated",
        "sigmoid is saturated",
        "relu is dead",
    ]
    both = watchpoints_of(["nan", "explosion", "nan"])
    assert len(both) == len(set(both)) == 4
    assert watchpoints_of(["nothing"]) == ()


def test_a_preset_that_does_not_exist_is_refused_with_a_hint() -> None:
    with pytest.raises(UsageError, match="did you mean 'dead'") as caught:
        watchpoints_of(["deda"])
    assert caught.value.slug == "watch-preset"
    with pytest.raises(UsageError, match="choose from nan, dead, learning"):
        watchpoints_of(["xyz"])
