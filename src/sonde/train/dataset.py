"""``mindspore.dataset`` as its documents use it: a dataset made of a Python sequence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch.utils.data import DataLoader

from sonde.core.arguments import check_positive_int, wrong_type, wrong_value
from sonde.core.mindspore.absent_names import absent

__all__ = ["GeneratorDataset"]


class GeneratorDataset:
    """Rows of a sequence as batches of tensors, loaded by torch's ``DataLoader``.

    ``source`` has a length and rows that are tuples with a value for each of ``column_names``. It
    is shuffled in every epoch unless ``shuffle`` is False, as in MindSpore.
    """

    def __init__(
        self,
        source: Sequence[Any],
        column_names: Sequence[str],
        shuffle: bool | None = None,
    ) -> None:
        if not hasattr(source, "__len__") or not hasattr(source, "__getitem__"):
            rule = "must be a sequence: write list(...) for a generator"
            raise wrong_type("source", "GeneratorDataset", rule, source)
        self._source = source
        self._columns = tuple(column_names)
        self._shuffles = shuffle is not False
        self._batch: tuple[int | None, bool] = (None, False)
        self._repeats = 1

    def batch(self, batch_size: int, drop_remainder: bool = False) -> GeneratorDataset:
        """Batches of so many rows; ``drop_remainder`` leaves out a smaller one at the end."""
        if self._batch[0] is not None or self._repeats != 1:
            rule = "must be called once, before repeat"
            raise wrong_value("batch", "GeneratorDataset", rule, batch_size)
        self._batch = check_positive_int(batch_size, "batch_size", "batch"), drop_remainder
        return self

    def repeat(self, count: int = 1) -> GeneratorDataset:
        """Go through all batches so many times in each epoch."""
        self._repeats *= check_positive_int(count, "count", "repeat")
        return self

    def get_dataset_size(self) -> int:
        """The number of batches of an epoch."""
        return len(self._loader()) * self._repeats

    __len__ = get_dataset_size

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        loader = self._loader()
        for _ in range(self._repeats):
            for batch in loader:
                yield tuple(batch)

    def create_tuple_iterator(self) -> Iterator[tuple[Any, ...]]:
        """The batches of one epoch as tuples, in the order of the columns."""
        return iter(self)

    def create_dict_iterator(self) -> Iterator[dict[str, Any]]:
        """The batches of one epoch by the names of the columns."""
        return (dict(zip(self._columns, batch, strict=True)) for batch in self)

    def _loader(self) -> DataLoader[Any]:
        size, drops = self._batch
        return DataLoader(
            self._source,  # type: ignore[arg-type]
            batch_size=size,
            shuffle=self._shuffles,
            drop_last=drops,
        )


def __getattr__(name: str) -> Any:
    absent(__name__, name)
    from sonde.core.text.missing_name import missing_name

    raise missing_name(__name__, name, __all__)
