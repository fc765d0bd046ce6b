"""Reads loss curves from TensorBoard's event files, without TensorBoard.

A file that ends inside a record was still being written: the record is ignored. A wrong checksum is
an error with its position.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sonde.compare.losses.compare import LossSeries
from sonde.compare.losses.text import LossFileError, choose_name, curve
from sonde.core.files.event_records import RecordError, read_records
from sonde.core.files.event_values import values_of
from sonde.core.files.protobuf_wire import WireError

_PREFERRED = ("loss", "train/loss", "Loss/train", "train_loss", "training_loss", "loss/train")
_MOST_BYTES = 1 << 16
"""Scalars are small; images and graphs are skipped."""
_MAX_TAGS = 100_000


def read_events(origin: Path, files: list[Path], tag: str | None) -> LossSeries:
    """The scalar ``tag``, or the one that is most likely the loss, from all files together."""
    scalars: dict[str, list[tuple[int | None, float]]] = {}
    for path in files:
        for name, step, value in _scalars(path):
            if name not in scalars and len(scalars) >= _MAX_TAGS:
                raise _error(path, 0, f"more than {_MAX_TAGS} tags")
            scalars.setdefault(name, []).append((step, value))
    chosen = choose_name(origin, "scalar", list(scalars), tag, _PREFERRED)
    return curve(origin, scalars[chosen])


def _scalars(path: Path) -> Iterator[tuple[str, int, float]]:
    try:
        for record in read_records(path, most=_MOST_BYTES):
            try:
                for value in values_of(record.data):
                    if value.kind == "scalars":
                        yield value.tag, value.step, value.number
            except WireError as error:
                raise _error(path, record.start, f"not an event: {error}") from None
    except RecordError as error:
        raise _error(path, error.position, error.reason) from None


def _error(path: Path, position: int, reason: str) -> LossFileError:
    return LossFileError(
        f"{path} is damaged or not an event file: byte {position}: {reason}", slug="loss-file"
    )
