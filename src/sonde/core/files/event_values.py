"""The values in an event of TensorBoard's: numbers, histograms, pictures and texts.

Each kind has two forms: a field of its own, as torch.utils.tensorboard and Sonde write it, and a
tensor, as TensorFlow 2 does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from sonde.core.files.protobuf_wire import BYTES, FIXED32, FIXED64, VARINT, Message, WireError

ValueKind = Literal["scalars", "histograms", "images", "texts"]
_FLOAT, _DOUBLE, _STRING = 1, 2, 7
_NUMBERS: Final = {_FLOAT: ("<f4", "f"), _DOUBLE: ("<f8", "d")}
_PICTURES: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
    b"BM": "image/bmp",
}
_MOST_TEXT: Final = 20_000


@dataclass(frozen=True, slots=True)
class EventValue:
    """A value of a tag in a step. Histograms and pictures lie from ``start`` to ``stop`` in the
    event, as a message of `histogram_of` or `picture_of`."""

    tag: str
    step: int
    kind: ValueKind
    number: float = 0.0
    text: str = ""
    start: int = 0
    stop: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class EventHistogram:
    """``counts`` of values between ``edges``, one more than counts, which rise."""

    edges: NDArray[np.float64]
    counts: NDArray[np.float64]

    def rebinned(self, edges: NDArray[np.float64]) -> NDArray[np.float64]:
        """The counts between other edges; the values of a bin are taken as spread evenly in it,
        those of a bin without width fall into one."""
        wide = np.diff(self.edges) > 0
        total = np.concatenate(([0.0], np.cumsum(np.where(wide, self.counts, 0.0))))
        found: NDArray[np.float64] = np.diff(np.interp(edges, self.edges, total))
        if edges[-1] > edges[0]:
            for place, count in zip(self.edges[:-1][~wide], self.counts[~wide], strict=True):
                at = int(np.searchsorted(edges, place, "right")) - 1
                found[min(max(at, 0), found.size - 1)] += count
        return found


@dataclass(frozen=True, slots=True)
class EventPicture:
    """An encoded picture."""

    media_type: str
    data: bytes


def values_of(event: bytes) -> Iterator[EventValue]:
    """The values of one event: its step is field 2, its summary field 5."""
    step, summaries = 0, []
    for part in Message(event, 0, len(event)).fields():
        if part.number == 2 and part.wire == VARINT:
            step = part.as_int()
        elif part.number == 5 and part.wire == BYTES:
            summaries.append(part.as_message())
    for summary in summaries:
        for part in summary.fields():
            if part.number == 1 and part.wire == BYTES:
                found = _value(part.as_message(), step)
                if found is not None:
                    yield found


def _value(message: Message, step: int) -> EventValue | None:
    """A value has a tag (1) and a number (2), picture (4), histogram (5) or tensor (8)."""
    tag, found = "", None
    for part in message.fields():
        if part.number == 1 and part.wire == BYTES:
            tag = part.as_text()
        elif part.number == 2 and part.wire == FIXED32:
            found = EventValue("", step, "scalars", number=part.as_floats("f")[0])
        elif part.number in (4, 5) and part.wire == BYTES:
            kind: ValueKind = "images" if part.number == 4 else "histograms"
            found = EventValue("", step, kind, start=part.value, stop=part.stop)
        elif part.number == 8 and part.wire == BYTES:
            found = _tensor_value(part.as_message(), step)
    if found is None or not tag:
        return None
    return EventValue(tag, step, found.kind, found.number, found.text, found.start, found.stop)


@dataclass(slots=True)
class _Tensor:
    dtype: int
    shape: list[int]
    raw: bytes
    numbers: list[float]
    texts: list[bytes]

    def as_array(self) -> NDArray[np.float64]:
        kind, _ = _NUMBERS[self.dtype]
        if self.raw:
            return np.frombuffer(self.raw[: len(self.raw) // int(kind[2:]) * int(kind[2:])], kind)
        return np.array(self.numbers, np.float64)


def _tensor(message: Message) -> _Tensor:
    found = _Tensor(0, [], b"", [], [])
    for part in message.fields():
        if part.number == 1 and part.wire == VARINT:
            found.dtype = part.as_uint()
        elif part.number == 2 and part.wire == BYTES:
            found.shape = _shape(part.as_message())
        elif part.number == 4 and part.wire == BYTES:
            found.raw = part.as_bytes()
        elif part.number == 8 and part.wire == BYTES:
            found.texts.append(part.as_bytes())
        elif part.number in (5, 6) and found.dtype == (_FLOAT if part.number == 5 else _DOUBLE):
            found.numbers += part.as_floats("f" if part.number == 5 else "d")
    return found


def _shape(message: Message) -> list[int]:
    found = []
    for part in message.fields():
        if part.number == 2 and part.wire == BYTES:
            sizes = [each.as_int() for each in part.as_message().fields() if each.number == 1]
            found.append(sizes[0] if sizes else 0)
    return found


def _tensor_value(message: Message, step: int) -> EventValue | None:
    tensor = _tensor(message)
    if tensor.dtype == _STRING:
        if len(tensor.texts) >= 3 and _media_type(tensor.texts[2]):
            return EventValue("", step, "images", start=message.start, stop=message.stop)
        text = b"\n".join(tensor.texts)[:_MOST_TEXT].decode("utf-8", "replace")
        return EventValue("", step, "texts", text=text)
    if tensor.dtype not in _NUMBERS:
        return None
    if len(tensor.shape) == 2 and tensor.shape[1] == 3:
        return EventValue("", step, "histograms", start=message.start, stop=message.stop)
    numbers = tensor.as_array()
    return EventValue("", step, "scalars", number=float(numbers[0])) if numbers.size == 1 else None


def histogram_of(data: bytes) -> EventHistogram:
    """A histogram: fields min (1), max (2), bucket limits (6) and counts (7), or a tensor with the
    left and right edge and the count of each bin. WireError if it is neither."""
    message = Message(data, 0, len(data))
    if any(part.number in (1, 4) and part.wire in (VARINT, BYTES) for part in message.fields()):
        return _tensor_histogram(_tensor(message).as_array())
    ends, limits, counts = {1: 0.0, 2: 0.0}, [], []
    for part in message.fields():
        if part.number in ends and part.wire == FIXED64:
            ends[part.number] = part.as_floats("d")[0]
        elif part.number == 6:
            limits += part.as_floats("d")
        elif part.number == 7:
            counts += part.as_floats("d")
    if len(limits) != len(counts) or not limits:
        raise WireError("a histogram has no bins", 0)
    low, high = ends[1], ends[2]
    edges = np.clip(np.array([low, *limits], np.float64), low, max(high, low))
    return EventHistogram(np.maximum.accumulate(edges), np.array(counts, np.float64))


def _tensor_histogram(numbers: NDArray[np.float64]) -> EventHistogram:
    if numbers.size % 3:
        raise WireError("a histogram has no bins", 0)
    rows = numbers.reshape(-1, 3).astype(np.float64)
    if not rows.size:
        return EventHistogram(np.array([0.0, 0.0]), np.array([0.0]))
    return EventHistogram(np.append(rows[:, 0], rows[-1, 1]), rows[:, 2])


def picture_of(data: bytes) -> EventPicture:
    """A picture: field 4 has the encoded one, or of a tensor the third text. WireError if it is of
    no known format."""
    message = Message(data, 0, len(data))
    found, texts = b"", []
    for part in message.fields():
        if part.number == 4 and part.wire == BYTES:
            found = part.as_bytes()
        elif part.number == 8 and part.wire == BYTES:
            texts.append(part.as_bytes())
    encoded = texts[2] if len(texts) >= 3 else found
    kind = _media_type(encoded)
    if not kind:
        raise WireError("a picture has an unknown format", 0)
    return EventPicture(kind, encoded)


def _media_type(data: bytes) -> str:
    return next((kind for magic, kind in _PICTURES.items() if data.startswith(magic)), "")
