"""The losses in a dump: the last number of each step that the forward pass makes."""

from __future__ import annotations

from pathlib import Path

from sonde.compare.loss_text import LossFileError
from sonde.compare.losses import LossCurve
from sonde.dump.reader import Dump
from sonde.dump.record import TensorRecord


def read_dump_losses(path: Path) -> LossCurve:
    """The loss of each dumped step: the last float of one element before the backward pass.

    Also from statistics, whose greatest value is the value itself.
    """
    dump = Dump(path)
    rank = dump.ranks[0]
    steps: list[int] = []
    values: list[float] = []
    for step in dump.steps(rank=rank):
        value = _loss(list(dump.tensors(step=step, io="output", rank=rank)))
        if value is not None:
            steps.append(step)
            values.append(value)
    if not values:
        raise LossFileError(
            f"{path} is a dump without a loss: no op of the forward pass gives one number; dump "
            "the outputs of all ops",
            slug="loss-empty",
        )
    return LossCurve(str(path), tuple(steps), tuple(values))


def _loss(records: list[TensorRecord]) -> float | None:
    found: TensorRecord | None = None
    for record in records:
        node = record.node
        if node is None or node.kind != "op":
            continue
        if node.phase == "backward" and found is not None:
            break
        is_float = record.dtype.startswith(("float", "bfloat"))
        if node.phase == "forward" and is_float and _is_one(record):
            found = record
    return None if found is None else _value(found)


def _is_one(record: TensorRecord) -> bool:
    return all(size == 1 for size in record.shape)


def _value(record: TensorRecord) -> float | None:
    if record.path is not None:
        return float(record.numpy().reshape(-1)[0])
    number = None if record.row is None else record.row.values.get("max")
    return None if number is None or isinstance(number, str) else float(number)
