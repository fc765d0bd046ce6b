"""Reads the layout of a run from a YAML file, for ``sonde compare --layout``.

mesh: {dp: 2, tp: 2}
tensors:
  - name: '*.attention.weight'
    placement: {tp: shard 0, dp: replicate}
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any, Final

from sonde.compare.options import CompareError
from sonde.compare.run_layout import AxisRule, Rule, RunLayout
from sonde.compare.yaml_file import mapping_of, read_yaml, yaml_problem
from sonde.core.errors import ConfigError, SondeError

_RULES: Final[dict[str, Rule]] = {"replicate": "one", "sum": "sum", "mean": "mean"}
_SHARD: Final = re.compile(r"shard ([0-9]{1,2})")


def read_layout(path: Path, ranks: int) -> RunLayout:
    """The layout in a file, of a run of ``ranks`` ranks; ConfigError has every error with its
    line."""
    fields = dict(mapping_of(read_yaml(path, "a layout", slug="compare-layouts")))
    problems: list[SondeError] = []
    for name, (line, _) in fields.items():
        if name not in ("mesh", "tensors"):
            what = f"{name!r} is not known; there are 'mesh' and 'tensors'"
            problems.append(_problem(path, line, what))
    mesh: dict[str, int] = {}
    line, node = fields.get("mesh", (1, None))
    for name, (place, value) in mapping_of(node):
        if not str(value.value).isdigit() or int(value.value) < 1:
            problems.append(_problem(path, place, f"{name} needs a number of ranks"))
        else:
            mesh[name] = int(value.value)
    if not problems and (not mesh or prod(mesh.values()) != ranks):
        what = f"mesh has {prod(mesh.values()) if mesh else 0} ranks, the dump has {ranks}"
        problems.append(_problem(path, line, what))
    tensors = []
    for each in _tensors(path, fields.get("tensors"), mesh):
        if isinstance(each, SondeError):
            problems.append(each)
        else:
            tensors.append(each)
    if problems:
        raise ConfigError(problems)
    return RunLayout(mesh, tuple(tensors))


def _tensors(
    path: Path, given: tuple[int, Any] | None, mesh: Mapping[str, int]
) -> Iterator[tuple[str, dict[str, AxisRule]] | SondeError]:
    if given is None:
        return
    line, node = given
    if node.id != "sequence":
        yield _problem(path, line, "'tensors' is not a list")
        return
    for entry in node.value:
        place = entry.start_mark.line + 1
        fields = dict(mapping_of(entry))
        if set(fields) != {"name", "placement"}:
            yield _problem(path, place, "a tensor has 'name' and 'placement'")
            continue
        rules: dict[str, AxisRule] = {}
        for axis, (where, value) in mapping_of(fields["placement"][1]):
            rule = _rule(str(value.value))
            if axis not in mesh:
                yield _problem(path, where, f"{axis!r} is no axis of 'mesh'")
            elif rule is None:
                what = f"{value.value!r} is not known; 'replicate', 'shard DIM', 'sum' or 'mean'"
                yield _problem(path, where, what)
            else:
                rules[axis] = rule
        yield str(fields["name"][1].value), rules


def _rule(text: str) -> AxisRule | None:
    match = _SHARD.fullmatch(text)
    if match is not None:
        return AxisRule("concat", int(match[1]))
    return AxisRule(_RULES[text]) if text in _RULES else None


def _problem(path: Path, line: int, what: str) -> CompareError:
    return yaml_problem(path, line, what, slug="compare-layouts")
