"""Reads and writes the map of pairs, a YAML file that users can edit.

pairs:
  - a: Default/network-Net/conv1-Conv2d/convolution-op0
    b: Default/network-WithLossCell/_backbone-Net/conv1-Conv2d/BiasAdd-op0
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sonde.compare.options import CompareError
from sonde.compare.runs.result import RunComparison
from sonde.compare.yaml_file import mapping_of, read_yaml, yaml_problem
from sonde.core.errors import ConfigError, SondeError
from sonde.core.files.atomic_file import write_whole
from sonde.core.settings import nearest
from sonde.dump.reader import Dump

_KEYS = frozenset({"a", "b", "how"})


def read_map(path: Path, a: Dump, b: Dump) -> dict[str, str]:
    """Full names of a with full names of b; ConfigError has every error with its line."""
    entries = list(_entries(path))
    problems = [each for each in entries if isinstance(each, SondeError)]
    pairs: dict[str, str] = {}
    names_a, names_b = _names(a), _names(b)
    for entry in entries:
        if isinstance(entry, SondeError):
            continue
        line, left, right = entry
        problems += _unknown(path, line, "a", left, names_a)
        problems += _unknown(path, line, "b", right, names_b)
        if left in pairs or right in pairs.values():
            twice = left if left in pairs else right
            problems.append(_problem(path, line, f"{twice} is paired twice"))
        pairs[left] = right
    if problems:
        raise ConfigError(problems)
    return pairs


def _entries(path: Path) -> Iterator[tuple[int, str, str] | SondeError]:
    """The pairs and the errors in the file, each with its line."""
    fields = dict(mapping_of(read_yaml(path, "a map of pairs", slug="compare-map")))
    for name, (line, _) in fields.items():
        if name != "pairs":
            yield _problem(path, line, f"{name!r} is not known; there is only 'pairs'")
    pairs = fields.get("pairs")
    if pairs is None or pairs[1].id != "sequence":
        yield _problem(path, 1, "is not a map: it needs a list called 'pairs'")
        return
    for node in pairs[1].value:
        yield from _entry(path, node)


def _entry(path: Path, node: Any) -> Iterator[tuple[int, str, str] | SondeError]:
    line = node.start_mark.line + 1
    if node.id != "mapping":
        yield _problem(path, line, "is not a pair; write 'a: NAME' and 'b: NAME'")
        return
    fields = dict(mapping_of(node))
    for name, (place, _) in fields.items():
        if name not in _KEYS:
            yield _problem(path, place, f"{name!r} is not known; a pair has 'a' and 'b'")
    names = [
        str(fields[key][1].value) if key in fields and fields[key][1].id == "scalar" else ""
        for key in ("a", "b")
    ]
    if all(names):
        yield line, names[0], names[1]
    for key, name in zip("ab", names, strict=True):
        if not name:
            yield _problem(path, line, f"the pair has no name called {key!r}")


def _problem(path: Path, line: int, what: str) -> CompareError:
    return yaml_problem(path, line, what, slug="compare-map")


def _names(dump: Dump) -> set[str]:
    names = {node.name for graph in dump.graphs() for node in graph}
    return names | {op.name for op in dump.named_ops()}


def _unknown(path: Path, line: int, side: str, name: str, names: set[str]) -> list[SondeError]:
    if name in names:
        return []
    return [_problem(path, line, f"{side} has no op called {name}{nearest(name, names)}")]


def write_map(path: Path, comparison: RunComparison) -> None:
    """Write the pairs that a comparison used."""
    lines = [
        f"# The pairs of {comparison.a.path} (a) and {comparison.b.path} (b).",
        "# Change, add or remove pairs and use the file with --map; ops that it does not name",
        "# are paired as without it.",
        "pairs:",
    ]
    for name_a, (name_b, how) in _used(comparison).items():
        lines += [f"  - a: {_text(name_a)}", f"    b: {_text(name_b)}", f"    how: {how}"]
    try:
        write_whole(path, "\n".join(lines) + "\n")
    except OSError as error:
        raise CompareError(
            f"{path}: cannot be written: {error.strerror}", slug="compare-file"
        ) from None


def _used(comparison: RunComparison) -> Mapping[str, tuple[str, str]]:
    """One counterpart for each name: that of the first step that has the op.

    Omitted are inputs, which have other names in other steps, and ops that are paired in parts:
    both are paired without a map.
    """
    own = [pair for pair in comparison.pairs if pair.how not in ("place", "update")]
    seen_a = Counter((pair.step, pair.rank, pair.a) for pair in own)
    seen_b = Counter((pair.step, pair.rank, pair.b) for pair in own)
    used: dict[str, tuple[str, str]] = {}
    taken: set[str] = set()
    for pair in own:
        count = max(seen_a[pair.step, pair.rank, pair.a], seen_b[pair.step, pair.rank, pair.b])
        if count == 1 and pair.kind != "input" and pair.a not in used and pair.b not in taken:
            used[pair.a] = (pair.b, pair.how)
            taken.add(pair.b)
    return used


def _text(name: str) -> str:
    """A name in YAML: quoted unless it is plain."""
    is_plain = re.fullmatch(r"[A-Za-z][A-Za-z0-9/_.-]*", name)
    return name if is_plain else json.dumps(name, ensure_ascii=True)
