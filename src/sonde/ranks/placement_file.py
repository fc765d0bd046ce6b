"""The file of ``--placements``: how tensors are laid out over ranks, where nothing else says it.

    groups:
      tp: {role: tensor, ranks: [[0, 1], [2, 3]]}
      dp: {role: data, ranks: [[0, 2], [1, 3]]}
    tensors:
      "*.qkv.weight": {tp: shard(0), dp: replicate}
      "experts.*": {tp: replicate}
      "*": {tp: replicate, dp: replicate}

The first pattern that matches the name of a parameter counts. Over a group that is not named a
tensor is laid out in no way: it is not compared.
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_args

from sonde.core.errors import SondeError
from sonde.ranks.report import GroupRole, PlacementKind

_SHARD: Final = re.compile(r"shard\((\d{1,2})\)")
_KINDS: Final[dict[str, PlacementKind]] = {"replicate": "replicated", "partial": "partial"}
_ROLES: Final = get_args(GroupRole)
_MOST_BYTES: Final = 1 << 20


class PlacementError(SondeError):
    """The file of ``--placements`` cannot be used."""


@dataclass(frozen=True, slots=True)
class DeclaredGroup:
    """``ranks``: those of each group with this name, which have no rank in common."""

    name: str
    role: GroupRole
    ranks: tuple[tuple[int, ...], ...]

    def of(self, rank: int) -> tuple[int, ...]:
        """The ranks of the group that ``rank`` is in; empty if it is in none."""
        return next((each for each in self.ranks if rank in each), ())


@dataclass(frozen=True, slots=True)
class DeclaredPlacement:
    """How a tensor is laid out over one group."""

    group: DeclaredGroup
    kind: PlacementKind
    dim: int = 0


@dataclass(frozen=True, slots=True)
class DeclaredPlacements:
    """What the file declares: placements by pattern, in the order of the file."""

    groups: tuple[DeclaredGroup, ...]
    tensors: tuple[tuple[str, tuple[DeclaredPlacement, ...]], ...]

    def of(self, name: str) -> tuple[DeclaredPlacement, ...] | None:
        """The placements of a tensor; None if no pattern matches its name."""
        for pattern, placements in self.tensors:
            if fnmatch.fnmatchcase(name, pattern):
                return placements
        return None


def read_placements(path: Path) -> DeclaredPlacements:
    """The placements in a file; PlacementError that says what is wrong with it."""
    document = _load(path)
    if not isinstance(document, dict) or set(document) != {"groups", "tensors"}:
        raise _problem(path, "has to have the keys 'groups' and 'tensors', and no others")
    groups = {
        str(name): _group(path, str(name), entry)
        for name, entry in _entries(path, "groups", document["groups"])
    }
    tensors = [
        (str(pattern), _placements(path, str(pattern), entry, groups))
        for pattern, entry in _entries(path, "tensors", document["tensors"])
    ]
    return DeclaredPlacements(tuple(groups.values()), tuple(tensors))


def _entries(path: Path, key: str, value: Any) -> list[tuple[Any, Any]]:
    if not isinstance(value, dict) or not value:
        raise _problem(path, f"{key!r} has to be a mapping with at least one entry")
    return list(value.items())


def _group(path: Path, name: str, entry: Any) -> DeclaredGroup:
    where = f"group {name!r}"
    if not isinstance(entry, dict) or set(entry) != {"role", "ranks"}:
        raise _problem(path, f"{where} has to have 'role' and 'ranks', and nothing else")
    role = entry["role"]
    if role not in _ROLES:
        raise _problem(path, f"the role of {where} is {role!r}; it is one of {', '.join(_ROLES)}")
    sets = entry["ranks"]
    is_list = isinstance(sets, list) and bool(sets) and all(isinstance(s, list) and s for s in sets)
    ranks = [rank for each in sets for rank in each] if is_list else []
    is_number = all(isinstance(r, int) and not isinstance(r, bool) and r >= 0 for r in ranks)
    if not ranks or not is_number:
        raise _problem(path, f"the ranks of {where} have to be lists such as [[0, 1], [2, 3]]")
    if len(set(ranks)) < len(ranks):
        twice = next(rank for rank in ranks if ranks.count(rank) > 1)
        raise _problem(path, f"{where} has rank {twice} twice")
    return DeclaredGroup(name, role, tuple(tuple(each) for each in sets))


def _placements(
    path: Path, pattern: str, entry: Any, groups: dict[str, DeclaredGroup]
) -> tuple[DeclaredPlacement, ...]:
    if not isinstance(entry, dict):
        raise _problem(path, f"tensor {pattern!r} has to be a mapping from groups to placements")
    found = []
    for name, text in entry.items():
        if name not in groups:
            known = ", ".join(groups)
            raise _problem(path, f"tensor {pattern!r} names group {name!r}; there are: {known}")
        shard = _SHARD.fullmatch(text) if isinstance(text, str) else None
        if shard is not None:
            found.append(DeclaredPlacement(groups[name], "sharded", int(shard.group(1))))
        elif text in _KINDS:
            found.append(DeclaredPlacement(groups[name], _KINDS[text]))
        else:
            raise _problem(
                path,
                f"tensor {pattern!r} is {text!r} over {name!r}; write replicate, shard(DIM) or "
                "partial",
            )
    return tuple(found)


def _load(path: Path) -> Any:
    try:
        import yaml  # type: ignore[import-untyped]
    except ModuleNotFoundError:
        raise PlacementError(
            "a file of placements needs PyYAML; pip install pyyaml", slug="placements"
        ) from None
    try:
        if not path.is_file():  # Reading a pipe might never end.
            raise _problem(path, "is a directory or no file" if path.exists() else "does not exist")
        if path.stat().st_size > _MOST_BYTES:
            raise _problem(path, f"has more than {_MOST_BYTES >> 20} MB")
        return yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise _problem(path, f"cannot be read: {error}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f" in line {mark.line + 1}"
        what = getattr(error, "problem", None) or "it has characters that YAML does not allow"
        raise _problem(path, f"is not YAML: {what}{line}") from None
    except (RecursionError, ValueError, TypeError) as error:
        raise _problem(path, f"is not YAML: {error}") from None


def _problem(path: Path, what: str) -> PlacementError:
    return PlacementError(f"{path}: {what} (docs/ranks.md)", slug="placements")
