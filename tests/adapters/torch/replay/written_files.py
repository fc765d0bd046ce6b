"""Writes tensors and pickled objects of a captured step by themselves."""

from __future__ import annotations

from pathlib import Path

from sonde.adapters.torch.replay.storage.object_pickle import ObjectWriter
from sonde.adapters.torch.replay.storage.tensor_files import TensorWriter, write_tensors
from sonde.replay.tensor_table import CapturedTensor


def written_tensors(writer: TensorWriter, directory: Path) -> list[CapturedTensor]:
    """Write the files; the table of what is in them."""
    table, weights = writer.collected()
    write_tensors(directory, weights)
    return table


def write_objects(writer: ObjectWriter, directory: Path) -> None:
    if data := writer.pickled():
        (directory / writer.file).write_bytes(data)
