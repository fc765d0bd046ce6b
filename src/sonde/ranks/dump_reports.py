"""Makes the reports of ranks from dumps, so that the checks judge them as they judge a live job."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

import xxhash
from msgspec.structs import replace

from sonde.core.errors import DumpError
from sonde.core.graph import OpNode
from sonde.dump.reader import Dump
from sonde.dump.reading.directories import StepDir
from sonde.dump.tensor_record import TensorRecord
from sonde.ranks.report import (
    CollectiveReport,
    Placement,
    RankDescription,
    RankOp,
    RankReport,
    RankTensor,
    StepReport,
)
from sonde.watch.hit_text import COLLECTIVES
from sonde.workers.run import Work, WorkerOptions, run_work

WORLD: Final = "world"
_ALONE: Final = WorkerOptions(1)
_SETTINGS: Final = ("framework_version", "sonde_version", "ms_version", "device_target")


def reports_of(dump: Dump, workers: WorkerOptions = _ALONE) -> Iterator[RankReport]:
    """The reports of all ranks of ``dump``, step by step; ``workers`` read the steps.

    A dump has the weights as they are before a step, which is as they were after the step before.
    Nothing says what is replicated, so that it is inferred. Weights without values, statistics or a
    hash are left out.
    """
    names = {rank: _parameters(dump, rank) for rank in dump.ranks}
    for rank in dump.ranks:
        yield _description(dump, rank, names[rank])
    directories = [
        each
        for step in dump.steps()
        for rank in dump.ranks
        for each in dump.step_dirs(step=step, rank=rank)
    ]
    firsts = {rank: min(dump.steps(rank=rank), default=0) for rank in dump.ranks}
    work = (
        Work(
            f"step {each.step}, rank {each.rank}",
            read_step,
            (dump.path, each, list(names[each.rank]), each.step == firsts[each.rank]),
        )
        for each in directories
    )
    found = run_work(work, workers) if workers.is_chosen else (each.run() for each in work)
    sequences = dict.fromkeys(dump.ranks, 0)
    for step_report, collectives in found:
        yield step_report
        for collective in collectives:
            yield replace(collective, sequence=sequences[collective.rank])
            sequences[collective.rank] += 1


def read_step(
    path: Path, directory: StepDir, names: list[str], is_first: bool
) -> tuple[StepReport, list[CollectiveReport]]:
    """The report of one step of one rank, and its collectives, numbered from 0; perhaps in another
    process, which keeps the dump open."""
    dump = _open(path)
    return _step(dump, directory, names, is_first), list(_collectives(dump, directory, 0))


@lru_cache(maxsize=4)
def _open(path: Path) -> Dump:
    return Dump(path)


def _parameters(dump: Dump, rank: int) -> dict[str, RankTensor]:
    """The parameters of a rank in the order of its first step."""
    found: dict[str, RankTensor] = {}
    first = dump.step_dirs(rank=rank)[:1]
    for record in _records(dump, first[0]) if first else ():
        if _is_parameter(record):
            placements = (Placement(WORLD, "replicated"),)
            name = record.key.op
            shape, dtype = record.shape, record.dtype
            found[name] = RankTensor(name, "parameter", shape, dtype, placements, is_inferred=True)
    return found


def _description(dump: Dump, rank: int, tensors: dict[str, RankTensor]) -> RankDescription:
    config = dump.metadata(rank).config
    settings: dict[str, str] = {name: str(config[name]) for name in _SETTINGS if name in config}
    groups = {WORLD: tuple(dump.ranks)}
    return RankDescription(rank, len(dump.ranks), groups, {}, tuple(tensors.values()), settings)


def _step(dump: Dump, directory: StepDir, names: list[str], is_first: bool) -> StepReport:
    digests: dict[str, int] = {}
    batch = xxhash.xxh3_64()
    inputs = 0
    for record in _records(dump, directory):
        if _is_parameter(record):
            digests[record.key.op] = _digest(record)
        elif record.node is not None and record.node.kind == "input" and (own := _digest(record)):
            inputs += 1
            batch.update(own.to_bytes(8, "little"))
    return StepReport(
        directory.rank,
        -1 if is_first else directory.step - 1,
        tuple(digests.get(name, 0) for name in names),
        batch_digest=batch.intdigest() if inputs else 0,
        ops=tuple(_backward_ops(dump, directory)),
        ops_step=directory.step,
    )


def _records(dump: Dump, directory: StepDir) -> Iterator[TensorRecord]:
    return dump.tensors(step=directory.step, rank=directory.rank, graph_id=directory.graph_id)


def _is_parameter(record: TensorRecord) -> bool:
    return record.node is not None and record.node.kind == "parameter"


def _digest(record: TensorRecord) -> int:
    """A hash of the values where they are in the dump, else of the statistics; 0 without either."""
    found = xxhash.xxh3_64(f"{record.dtype}{record.shape}".encode())
    row = record.row
    try:
        if record.path is not None:
            found.update(record.numpy().tobytes())
        elif row is not None and row.values:
            hashes = {name: each for name, each in row.values.items() if name in ("md5", "xxh3")}
            found.update(repr(sorted((hashes or row.values).items())).encode())
        else:
            return 0
    except DumpError:  # The dump lists it among its problems.
        return 0
    return found.intdigest() or 1


def _nodes(dump: Dump, directory: StepDir) -> Sequence[OpNode]:
    """The ops of the step in their order; none where the dump has no graph."""
    if directory.graph_id is None or directory.graph_id not in dump.graph_ids(directory.rank):
        return ()
    return dump.graph(directory.graph_id, directory.rank).nodes


def _line(node: OpNode) -> str:
    source = next(iter(node.sources), None)
    return "" if source is None else f"{source.file.rpartition('/')[2]}:{source.line}"


def _backward_ops(dump: Dump, directory: StepDir) -> Iterator[RankOp]:
    """The ops that gradients go through. What a single rank computes for a log has none."""
    for node in _nodes(dump, directory):
        is_op = node.phase == "backward" and node.kind == "op" and node.type != "detach"
        if is_op and not node.type.startswith(COLLECTIVES):
            yield RankOp(node.type, source=_line(node))


def _collectives(dump: Dump, directory: StepDir, first: int) -> Iterator[CollectiveReport]:
    number = first
    for node in _nodes(dump, directory):
        if not node.type.startswith(COLLECTIVES) or "wait" in node.type:
            continue
        spec = next((each for each in node.outputs if each is not None), None)
        yield CollectiveReport(
            directory.rank,
            WORLD,
            number,
            node.type,
            "" if spec is None else spec.dtype,
            0 if spec is None or spec.shape is None else math.prod(spec.shape),
            "",
            -1,
            _line(node),
            directory.step,
        )
        number += 1
