"""``GeneratorDataset`` as MindSpore's documents use it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sonde.train.dataset import GeneratorDataset

ROWS = [(np.array([n], np.float32), n) for n in range(5)]


def test_batches_of_columns_repeated() -> None:
    dataset = GeneratorDataset(ROWS, ["data", "label"], shuffle=False).batch(2, True).repeat(2)
    batches = list(dataset.create_tuple_iterator())
    assert [labels.tolist() for _, labels in batches] == [[0, 1], [2, 3], [0, 1], [2, 3]]
    assert batches[0][0].dtype == torch.float32
    assert dataset.get_dataset_size() == len(dataset) == 4
    first = next(iter(dataset.create_dict_iterator()))
    assert first["label"].tolist() == [0, 1]


def test_rows_are_shuffled_unless_told_otherwise() -> None:
    torch.manual_seed(0)
    many = [(n,) for n in range(50)]
    dataset = GeneratorDataset(many, ["n"]).batch(50)
    [(one,)], [(two,)] = list(dataset), list(dataset)
    assert sorted(one.tolist()) == list(range(50))
    assert one.tolist() != list(range(50)) != two.tolist()


def test_wrong_sources_and_calls_are_refused() -> None:
    with pytest.raises(TypeError, match="write list"):
        GeneratorDataset((row for row in ROWS), ["data", "label"])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="before repeat"):
        GeneratorDataset(ROWS, ["data", "label"]).repeat(2).batch(2)
