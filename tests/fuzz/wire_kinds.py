"""Messages between rank, server and page: whole ones, and what decodes damaged ones."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from tests.fuzz.kinds import Kind

from sonde.core.errors import SondeError
from sonde.server.http.body import read_body
from sonde.wire import questions, rank
from sonde.wire.api import ControlRequest, KeepRequest
from sonde.wire.framing import FrameReader, read_message
from sonde.wire.questions import question_decoder
from sonde.wire.watchpoints import WatchpointDraft, WatchpointFile


def sample(kind: Any, depth: int = 0) -> Any:
    """A plain value that decodes as ``kind``: every field filled, one element in every list."""
    info = msgspec.inspect.type_info(kind) if not isinstance(kind, msgspec.inspect.Type) else kind
    return _of(info, depth)


def _of(info: Any, depth: int) -> Any:
    inspect = msgspec.inspect
    if isinstance(info, inspect.StructType):
        made = {field.encode_name: _of(field.type, depth + 1) for field in info.fields}
        if info.tag_field is not None:
            made[info.tag_field] = info.tag
        return made
    if isinstance(info, inspect.UnionType):
        return _of(next(t for t in info.types if not isinstance(t, inspect.NoneType)), depth)
    if isinstance(info, inspect.VarTupleType | inspect.ListType | inspect.SetType):
        return [_of(info.item_type, depth + 1)]
    if isinstance(info, inspect.TupleType):
        return [_of(each, depth + 1) for each in info.item_types]
    if isinstance(info, inspect.DictType):
        return {"abs_mean_gt": _of(info.value_type, depth + 1)}
    if isinstance(info, inspect.LiteralType):
        return info.values[0]
    values: dict[Any, Any] = {
        inspect.IntType: 3,
        inspect.FloatType: 0.5,
        inspect.BoolType: True,
        inspect.StrType: "Default/net/fc1/addmm",
        inspect.BytesType: b"\x81\xa4kind\xa7summary",
    }
    return values.get(type(info))


def _tagged(union: Any) -> list[bytes]:
    encode = msgspec.msgpack.Encoder().encode
    return [encode(sample(kind)) for kind in union.__args__]


def _from_rank(directory: Path) -> Kind:
    def read(path: Path) -> None:
        body = path.read_bytes()
        with suppress(SondeError):
            asyncio.run(_read_frame(body))
        asyncio.run(_read_frame(struct.pack(">I", len(body)) + body))

    return Kind(_tagged(rank.FromRank), directory / "message", read, names_file=False)


async def _read_frame(data: bytes) -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    while await read_message(reader) is not None:
        pass


def _from_server(directory: Path) -> Kind:
    def read(path: Path) -> None:
        body = path.read_bytes()
        with suppress(SondeError):
            list(FrameReader().feed(body))
        list(FrameReader().feed(struct.pack(">I", len(body)) + body))

    return Kind(_tagged(rank.FromServer), directory / "message", read, names_file=False)


def _questions(directory: Path) -> Kind:
    def read(path: Path) -> None:
        try:
            question_decoder.decode(path.read_bytes())
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise SondeError(str(error), slug="refused") from None

    sources = _tagged(questions.AnyQuestion)
    return Kind(sources, directory / "question", read, names_file=False)


class _Request:
    """The part of a request that ``read_body`` uses."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    async def stream(self) -> Any:
        yield self._data


def _bodies(directory: Path) -> Kind:
    types = (ControlRequest, KeepRequest, WatchpointDraft, WatchpointFile)

    def read(path: Path) -> None:
        refused: list[SondeError] = []
        for kind in types:
            try:
                asyncio.run(read_body(_Request(path.read_bytes()), kind))  # type: ignore[arg-type]
            except SondeError as error:
                refused.append(error)
        if len(refused) == len(types):
            raise refused[0]

    sources = [msgspec.json.encode(sample(kind)) for kind in types]
    return Kind(sources, directory / "body", read, names_file=False)


KINDS: dict[str, Callable[[Path], Kind]] = {
    "from rank": _from_rank,
    "from server": _from_server,
    "questions": _questions,
    "bodies": _bodies,
}
