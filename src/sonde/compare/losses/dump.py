"""The losses in a dump: the last number of each step that the forward pass makes."""

from __future__ import annotations

from pathlib import Path

from sonde.compare.losses.compare import LossSeries
from sonde.compare.losses.text import LossFileError
from sonde.dump.reader import Dump
from sonde.dump.tensor_record import TensorRecord

_SEED = "ones_like"
"""The op of torch that makes the gradient of the loss, which is its input."""

_TOLD = 5


def read_dump_losses(path: Path) -> LossSeries:
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
    problems = tuple(f"damaged: {each}" for each in dump.problems)
    if not values and problems:
        raise LossFileError(f"{path} has no loss that can be read; {problems[0]}", slug="loss-file")
    if not values:
        raise LossFileError(
            f"{path} is a dump without a loss: no op of the forward pass gives one number; dump "
            "the outputs of all ops",
            slug="loss-empty",
        )
    return LossSeries(str(path), tuple(steps), tuple(values), problems[:_TOLD])


def _loss(records: list[TensorRecord]) -> float | None:
    """What backward begins at, where an op makes its first gradient; else the last number before.

    With loss scaling that is the scaled loss.
    """
    numbers: dict[tuple[str, int], TensorRecord] = {}
    last: TensorRecord | None = None
    for record in records:
        node = record.node
        if node is None or node.kind != "op":
            continue
        is_number = record.dtype.startswith(("float", "bfloat")) and _is_one(record)
        if is_number and node.type == _SEED and node.inputs:
            edge = node.inputs[0]
            last = numbers.get((edge.producer or "", edge.slot), last)
        elif node.phase == "backward" and last is not None:
            break
        elif is_number and node.phase == "forward":
            numbers[node.name, record.key.slot] = record
            if record.key.slot == 0:
                last = record
    return None if last is None else _value(last)


def _is_one(record: TensorRecord) -> bool:
    return all(size == 1 for size in record.shape)


def _value(record: TensorRecord) -> float | None:
    if record.path is not None:
        return float(record.numpy().reshape(-1)[0])
    number = None if record.row is None else record.row.values.get("max")
    return None if number is None or isinstance(number, str) else float(number)
