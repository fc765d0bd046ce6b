"""Fetches values of tensors from the training process."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final, TypeVar

import msgspec
from numpy.typing import NDArray

from sonde.core.errors import UsageError
from sonde.dump.reading.npy import read_header
from sonde.server.graph.level_values import statistic_value
from sonde.server.live.rank_link import RankLink
from sonde.server.run import NpyFile, Question
from sonde.wire.api import StatisticCurve, StatisticPoint
from sonde.wire.questions import (
    AnyAnswer,
    AskCheck,
    AskCompare,
    AskFile,
    AskHeat,
    AskOp,
    AskSummary,
    AskTable,
    Checked,
    Compared,
    Heat,
    OpTensors,
    Summary,
    Table,
)
from sonde.wire.rank import encoder
from sonde.wire.shapes import TensorName

Kind = TypeVar("Kind")
_CURVE_STEPS: Final = 64
_READ_BYTES: Final = 1 << 20
_FILE: Final = encoder.encode(AskFile())
_ANSWERS: Final[dict[type[Question], type[AnyAnswer]]] = {
    AskSummary: Summary,
    AskTable: Table,
    AskHeat: Heat,
    AskCompare: Compared,
    AskOp: OpTensors,
}


async def ask(link: RankLink, tensor: TensorName, question: Question) -> AnyAnswer:
    """Ask a rank; UsageError if its answer cannot be decoded."""
    return _read(await link.ask(tensor, encoder.encode(question)), _ANSWERS[type(question)])


async def statistics_of(
    link: RankLink, names: Sequence[str], step: int | None, statistic: str
) -> dict[str, float]:
    """A statistic of each of these tensors that the rank has."""
    found: dict[str, float] = {}
    for name in names:
        try:
            answer = await ask(link, TensorName(name, step=step), AskOp())
        except UsageError:
            continue  # The rank does not have this one.
        assert isinstance(answer, OpTensors)
        numbers = [each.statistics for each in answer.tensors if each.statistics is not None]
        value = statistic_value(statistic, numbers)
        if value is not None:
            found[name] = value
    return found


async def check(link: RankLink) -> Checked:
    """Have a rank evaluate its watchpoints now; it sends the hits before the answer."""
    return _read(await link.ask(TensorName(""), encoder.encode(AskCheck())), Checked)


def _read(body: bytes, kind: type[Kind]) -> Kind:
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(
            f"the answer of the rank cannot be decoded: {error}", slug="rank-unreadable"
        ) from None


async def download(link: RankLink, tensor: TensorName) -> NpyFile:
    """The whole tensor, fetched completely before the first byte is returned."""
    spool: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115, closed by the reader
    try:
        size = await link.download(tensor, _FILE, spool)
    except BaseException:
        spool.close()
        raise
    return NpyFile(size, _pieces(spool))


def _pieces(spool: IO[bytes]) -> Iterator[bytes]:
    with spool:
        spool.seek(0)
        while piece := spool.read(_READ_BYTES):
            yield piece


async def fetch(link: RankLink, tensor: TensorName) -> NDArray[Any]:
    """The values as an array."""
    with tempfile.NamedTemporaryFile(suffix=".npy") as file:
        await link.download(tensor, _FILE, file)
        file.flush()
        return await asyncio.to_thread(lambda: read_header(Path(file.name)).array())


async def curve(link: RankLink, tensor: TensorName) -> StatisticCurve:
    """Statistics over the steps whose values the rank has cached."""
    tensors = await ask(link, tensor, AskOp())
    assert isinstance(tensors, OpTensors)
    own = [each for each in tensors.tensors if (each.io, each.slot) == (tensor.io, tensor.slot)]
    if not own:
        raise UsageError(f"{tensor.op} has no {tensor.io} {tensor.slot}", slug="no-such-tensor")
    points: list[StatisticPoint] = []
    for step in own[0].steps[-_CURVE_STEPS:]:
        name = TensorName(tensor.op, tensor.io, tensor.slot, step)
        summary = await ask(link, name, AskSummary(bins=1))
        if isinstance(summary, Summary) and summary.statistics is not None:
            points.append(StatisticPoint(step, summary.statistics))
    return StatisticCurve(tensor.op, tensor.io, tensor.slot, own[0].type, tuple(points))
