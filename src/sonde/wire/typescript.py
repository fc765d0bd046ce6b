"""The wire types in TypeScript, for the page.

``python -m sonde.wire.typescript web/src/wire.ts`` writes them.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Literal, get_args, get_origin

import msgspec
from msgspec import inspect as types

from sonde.wire import (
    api,
    comparison,
    graphs,
    health,
    questions,
    rank,
    ranks,
    shapes,
    summaries,
    watchpoints,
)
from sonde.wire.shapes import Plain

_HEAD: Final = """\
// Made from the Python types by `python -m sonde.wire.typescript web/src/wire.ts`; do not edit.

/** A number; "nan", "inf", "-inf" and whole numbers beyond 2**53 are texts. */
export type Num = number | string;
"""
_SENT: Final = frozenset({"ControlRequest", "WatchpointDraft", "WatchpointFile", "KeepRequest"})
"""Types that the page sends: fields with a default may be left out."""
_NUMBER: Final = frozenset({types.FloatType, types.IntType, types.StrType})


def generate() -> str:
    """The text of ``wire.ts``: aliases, then the types of answers and requests, by module."""
    literals = _literals()
    aliases = {tuple(sorted(values)): name for name, values in literals.items()}
    parts = [_HEAD]
    parts.extend(f"export type {name} = {_union(values)};" for name, values in literals.items())
    parts.append("")
    for module in (
        shapes,
        questions,
        graphs,
        watchpoints,
        api,
        comparison,
        ranks,
        health,
        summaries,
    ):
        for struct in _structs(module):
            parts.append(_interface(struct, aliases))
    return "\n".join(parts)


def _literals() -> dict[str, tuple[str, ...]]:
    """The named literal types and their values."""
    return {
        name: get_args(value)
        for module in (shapes, rank, graphs, api, comparison, ranks)
        for name, value in vars(module).items()
        if get_origin(value) is Literal
    }


def _structs(module: ModuleType) -> list[type[Plain]]:
    """The types defined in ``module``, in its order, without the questions to ranks."""
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Plain)
        and value.__module__ == module.__name__
        and value is not Plain
        and not issubclass(value, questions.BaseQuestion)
    ]


def _interface(struct: type[Plain], aliases: dict[tuple[str, ...], str]) -> str:
    described = types.type_info(struct)
    assert isinstance(described, types.StructType)
    is_documented = struct.__doc__ and struct.__doc__ != Plain.__doc__
    lines = [_comment(struct.__doc__)] if is_documented else []
    lines.append(f"export interface {struct.__name__} {{")
    for field in described.fields:
        may_miss = struct.__name__ in _SENT and not field.required
        mark = "?" if may_miss else ""
        lines.append(f"  readonly {field.encode_name}{mark}: {_text(field.type, aliases)};")
    lines.append("}\n")
    return "\n".join(lines)


def _comment(text: str | None) -> str:
    words = " ".join((text or "").split()).replace("``", "`").replace("*/", "* /")
    lines = textwrap.wrap(words, 92)
    if len(lines) == 1:
        return f"/** {words} */"
    return "\n".join(["/**", *(f" * {line}" for line in lines), " */"])


def _text(described: types.Type, aliases: dict[tuple[str, ...], str]) -> str:
    match described:
        case types.IntType() | types.FloatType():
            return "number"
        case types.StrType():
            return "string"
        case types.BoolType():
            return "boolean"
        case types.NoneType():
            return "null"
        case types.LiteralType(values=values):
            return aliases.get(tuple(sorted(map(str, values)))) or _union(values)
        case types.VarTupleType(item_type=item):
            inner = _text(item, aliases)
            return f"readonly {inner}[]" if " " not in inner else f"readonly ({inner})[]"
        case types.TupleType(item_types=items):
            return f"readonly [{', '.join(_text(item, aliases) for item in items)}]"
        case types.DictType(value_type=value):
            return f"Readonly<Record<string, {_text(value, aliases)}>>"
        case types.StructType(cls=cls):
            return str(cls.__name__)
        case types.UnionType(types=members):
            return _members(members, aliases)
    raise TypeError(f"{described} has no TypeScript")


def _members(members: tuple[types.Type, ...], aliases: dict[tuple[str, ...], str]) -> str:
    rest = [member for member in members if type(member) not in _NUMBER]
    texts = ["Num"] if len(members) - len(rest) == len(_NUMBER) else None
    if texts is None:
        return " | ".join(dict.fromkeys(_text(member, aliases) for member in members))
    return " | ".join([*texts, *(_text(member, aliases) for member in rest)])


def _union(values: Any) -> str:
    return " | ".join(msgspec.json.encode(value).decode() for value in values)


def main(path: str) -> None:
    Path(path).write_text(generate(), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
