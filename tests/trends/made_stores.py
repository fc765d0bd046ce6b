"""Statistics of made-up tensors in Parquet files, beside the arrays they were computed from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from sonde import kernels
from sonde.capture.options import STORE_CATEGORIES
from sonde.core.graph import OpNode, Phase, Source
from sonde.core.sink import TensorView
from sonde.core.statistics import ROW_COLUMNS
from sonde.dump.statistic_store.op_table import OpTable
from sonde.dump.statistic_store.row_writer import RowWriter, StoreSettings
from sonde.dump.statistic_store.step_rows import StepRows
from sonde.kernels.codes import dtype_code


@dataclass(frozen=True)
class MadeView:
    """What the op table reads of a tensor."""

    array: NDArray[Any]
    io: str = "output"
    slot: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def dtype(self) -> str:
        return str(self.array.dtype)

    @property
    def nbytes(self) -> int:
        return self.array.nbytes


@dataclass
class MadeTraining:
    """A network of ``layers`` linear layers; ``arrays[step][op]`` is what an op has returned."""

    layers: int = 3
    steps: int = 30
    seed: int = 0
    arrays: dict[int, dict[str, NDArray[Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        chance = np.random.default_rng(self.seed)
        for step in range(self.steps):
            self.arrays[step] = {
                node.name: self._values(node, step, chance) for node in self.nodes()
            }

    def nodes(self) -> list[OpNode]:
        found = []
        for layer in range(self.layers):
            scope = f"Default/net/{layer}-Linear"
            place = (Source("/code/train.py", 10 + layer, "forward", "y = fc(x)"),)
            found.append(OpNode(f"{layer}.weight", "Parameter", scope, "forward", "parameter"))
            found.append(_op(f"{scope}/addmm-op0", "addmm", scope, "forward", place))
            found.append(_op(f"{scope}/relu-op0", "relu", scope, "forward", place))
            found.append(_op(f"{scope}/view-op0", "view", scope, "forward", place))
            back = f"Gradients/{scope}"
            found.append(_op(f"{back}/detach-op0", "detach", back, "backward", place))
            found.append(_op(f"{back}/mm-op0", "mm", back, "backward", place))
        return found

    def _values(self, node: OpNode, step: int, chance: np.random.Generator) -> NDArray[Any]:
        values = chance.normal(size=(4, 5)).astype(np.float32)
        if node.type == "relu":
            values = np.maximum(values, 0)
        if node.type == "mm" and node.scope.endswith("1-Linear"):
            values *= np.float32(1.5 ** min(step, 40))
        return values


def _op(name: str, kind: str, scope: str, phase: Phase, sources: tuple[Source, ...]) -> OpNode:
    return OpNode(name, kind, scope, phase, "op", sources=sources)


def raw_row(array: NDArray[Any]) -> NDArray[np.float64]:
    """The raw row that native code computes."""
    row = np.empty(ROW_COLUMNS)
    held = np.asarray(array, order="C")
    kernels.summarize_strided_into(
        row.ctypes.data, held.ctypes.data, dtype_code(str(held.dtype)), held.shape, None
    )
    return row


def open_writer(
    directory: Path,
    categories: Sequence[str] = STORE_CATEGORIES,
    *,
    budget_bytes: int = 64 << 20,
    **settings: Any,
) -> tuple[OpTable, RowWriter]:
    directory.mkdir(parents=True, exist_ok=True)
    ops = OpTable(directory)
    chosen = StoreSettings(tuple(categories), budget_bytes, **settings)
    return ops, RowWriter(directory, ops, chosen)


def write_training(
    training: MadeTraining,
    dump: Path,
    *,
    rank: int = 0,
    categories: Sequence[str] = STORE_CATEGORIES,
    **settings: Any,
) -> Path:
    """Write all steps as a training does; the directory of the Parquet files."""
    directory = dump / f"rank_{rank}" / "statistics"
    ops, writer = open_writer(directory, categories, **settings)
    for step, arrays in training.arrays.items():
        add_step(ops, writer, training, step, arrays)
    writer.close()
    assert writer.error is None
    return directory


def add_step(
    ops: OpTable,
    writer: RowWriter,
    training: MadeTraining,
    step: int,
    arrays: dict[str, NDArray[Any]],
) -> None:
    known = {node.name: node for node in training.nodes()}
    nodes = [known[name] for name in arrays]
    labels = [ops.number(node, cast(TensorView, MadeView(arrays[node.name]))) for node in nodes]
    rows = np.stack([raw_row(arrays[node.name]) for node in nodes])
    stamps = np.full(len(nodes), 1_700_000_000_000_000 + step, np.int64)
    digests = {
        name: [digest(name, arrays[node.name]) for node in nodes] for name in ("md5", "xxh3")
    }
    writer.add(step, 0, StepRows(labels, stamps.tobytes(), rows.tobytes(), digests))


def digest(name: str, array: NDArray[Any]) -> bytes:
    held = np.asarray(array, order="C")
    return kernels.hash_tensor(name, held.ctypes.data, str(held.dtype), held.shape).encode()
