"""Reads the losses from a dump: the last scalar that the forward pass computes in each step."""

from __future__ import annotations

from pathlib import Path

from sonde.compare.losses.compare import LossSeries
from sonde.compare.losses.text import LossFileError
from sonde.dump.reader import Dump
from sonde.dump.tensor_record import TensorRecord

_SEED = "ones_like"
"""The op of torch that computes the gradient of the loss; the loss is its input."""

_SHOWN_PROBLEMS = 5


def read_dump_losses(path: Path) -> LossSeries:
    """The loss of each dumped step: the last float of one element before the backward pass.

    In a dump of statistics, the maximum of a single element is its value.
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
            f"{path} is a dump without a loss: no op of the forward pass has a scalar output; dump "
            "the outputs of all ops",
            slug="loss-empty",
        )
    return LossSeries(str(path), tuple(steps), tuple(values), problems[:_SHOWN_PROBLEMS])


def _loss(records: list[TensorRecord]) -> float | None:
    """The value whose gradient starts the backward pass, else the last scalar before that pass.

    With loss scaling this is the scaled loss.
    """
    numbers: dict[tuple[str, int], TensorRecord] = {}
    last: TensorRecord | None = None
    for record in records:
        node = record.node
        if node is None or node.kind != "op":
            continue
        is_single = all(size == 1 for size in record.shape)
        is_number = is_single and record.dtype.startswith(("float", "bfloat"))
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


def _value(record: TensorRecord) -> float | None:
    if record.path is not None:
        return float(record.numpy().reshape(-1)[0])
    number = None if record.row is None else record.row.values.get("max")
    return None if number is None or isinstance(number, str) else float(number)
