"""Facts of a record as the manifest has them: trigger, signals, autocast, GradScaler, lines."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import CodeType
from typing import Any

import numpy as np

from sonde.adapters.torch.replay.step_record import AutocastState, StepRecord
from sonde.core.text.number_text import json_number, json_value
from sonde.replay.manifest import StoredAutocast, StoredLine, StoredScaler, StoredTrigger

_TRIGGER_FIELDS = tuple(name for name in StoredTrigger.__struct_fields__ if name != "facts")


def stored_autocast(states: tuple[AutocastState, ...]) -> list[StoredAutocast]:
    return [
        StoredAutocast(
            device=each.device,
            is_enabled=each.is_enabled,
            dtype=str(each.dtype).removeprefix("torch."),
            is_cached=each.is_cached,
        )
        for each in states
    ]


def stored_line(code: CodeType, line: int) -> StoredLine:
    return StoredLine(file=code.co_filename, line=line, function=code.co_name)


def stored_scaler(record: StepRecord) -> StoredScaler | None:
    scaling = record.scaling
    if scaling is None:
        return None
    state = {
        name: value
        for name, value in scaling.scaler.state_dict().items()
        if isinstance(value, int | float)
    }
    device = str(getattr(scaling.scaler, "_device", "cuda"))
    return StoredScaler(device=device, scale=json_number(scaling.scale), state=state)


def stored_trigger(trigger: Any) -> StoredTrigger:
    facts = plain_fields(trigger)
    known = {name: facts.pop(name) for name in _TRIGGER_FIELDS if facts.get(name) is not None}
    return StoredTrigger(**known, facts={name: each for name, each in facts.items() if each})


def plain_fields(given: Any) -> dict[str, Any]:
    """The fields of a dataclass or mapping that JSON can hold."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        given = {each.name: getattr(given, each.name) for each in dataclasses.fields(given)}
    plain = {}
    for name, value in given.items():
        if isinstance(value, np.generic):
            value = value.item()
        elif isinstance(value, np.ndarray):
            value = value.tolist()
        if value is None or isinstance(value, bool | int | float | str | list | tuple | dict):
            plain[str(name)] = json_value(value)
    return plain
