"""How ``sonde show`` looks in a terminal. Nothing is cut: what is too long goes on below."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

import numpy as np
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sonde.core.errors import DumpError
from sonde.core.graph import Graph, Source
from sonde.core.selection import parse_steps
from sonde.dump.reader import Dump
from sonde.dump.record import TensorRecord
from sonde.dump.rows import Number
from sonde.dump.side_files import OverflowEntry
from sonde.dump.summary import StepSummary, TensorSummary
from sonde.dump.tree import Problem, StepDir

_MANY = 12
_UNLIMITED_WIDTH = 100_000
_COLUMNS = {"min": "min", "max": "max", "avg": "mean", "std": "std", "l2norm": "l2norm"}
_NON_FINITE = ("NaN", "Infinity", "-Infinity")
_WRITERS = {"sonde": "Sonde", "mindspore": "MindSpore", None: "an unknown program"}


@dataclass(frozen=True, slots=True)
class Listed:
    """A tensor and its statistics, ready to be shown."""

    record: TensorRecord
    summary: TensorSummary


@dataclass(frozen=True, slots=True)
class Page:
    """Draws on one console."""

    console: Console

    @classmethod
    def on(cls, stream: TextIO) -> Page:
        """Folds lines at the terminal's width; in a pipe, where nobody looks, it does not."""
        is_free = not stream.isatty() and "COLUMNS" not in os.environ
        width = _UNLIMITED_WIDTH if is_free else None
        return cls(Console(file=stream, width=width, highlight=False, markup=False, emoji=False))

    def line(self, *parts: str | Text, indent: int = 0) -> None:
        text = Text.assemble(*parts, overflow="fold")
        self.console.print(Padding(text, (0, 0, 0, indent), expand=False))

    def overview(
        self,
        dump: Dump,
        rank: int | None,
        steps: Sequence[StepSummary],
        overflow: Sequence[tuple[StepDir, tuple[OverflowEntry, ...]]],
    ) -> None:
        config = dump.metadata(rank).config
        version = config.get("sonde_version") or config.get("ms_version") or ""
        maker = f"{_WRITERS[dump.writer(rank)]} {version}".strip()
        nets = ", ".join(dump.nets(rank)) or "no network"
        self.line(Text(str(dump.path), "bold"), f": {nets}, by {maker}")
        self.console.print()
        self._graph_table(dump, steps)
        for graph in dump.graphs(rank):
            self._type_table(graph, dump.execution_order(graph.id, rank))
        self._overflow(overflow)
        self._problems(dump.problems)
        self.console.print()
        if steps:
            step = steps[-1].step.step
            self.line("Tensors: ", Text(f"sonde show {dump.path} --step {step}", "cyan"))

    def _graph_table(self, dump: Dump, steps: Sequence[StepSummary]) -> None:
        table = _table("rank", "graph", "steps", "ops", "tensors", "size", left={"steps"})
        ops = {graph.id: len(dump.execution_order(graph.id)) for graph in dump.graphs()}
        groups: dict[tuple[int, str, int | None], list[StepSummary]] = {}
        for each in steps:
            place = (each.step.rank, each.step.net, each.step.graph_id)
            groups.setdefault(place, []).append(each)
        for (rank, _, graph_id), members in groups.items():
            table.add_row(
                str(rank),
                "unfinished" if graph_id is None else str(graph_id),
                steps_text([each.step.step for each in members]),
                "" if graph_id is None else f"{ops[graph_id]:,}" if graph_id in ops else "?",
                f"{sum(each.tensors for each in members):,}",
                size_text(sum(each.nbytes for each in members)),
            )
        if groups:
            self.console.print(table)
        else:
            self.line("No step was dumped.")

    def _type_table(self, graph: Graph, order: Sequence[str]) -> None:
        counts: dict[str, Counter[str]] = {}
        for op in (graph.node(name) for name in order if name in graph):
            counts.setdefault(op.type, Counter())[op.phase] += 1
        table = _table("ops of graph " + str(graph.id), "forward", "backward", "optimizer")
        ordered = sorted(counts.items(), key=lambda item: (-item[1].total(), item[0]))
        for op_type, phases in ordered[:_MANY]:
            table.add_row(
                op_type,
                *(str(phases[phase] or "") for phase in ("forward", "backward", "optimizer")),
            )
        if len(ordered) > _MANY:
            rest = sum(phases.total() for _, phases in ordered[_MANY:])
            table.add_row(f"{len(ordered) - _MANY} other types: {rest:,} ops")
        if counts:
            self.console.print()
            self.console.print(table)

    def _overflow(self, overflow: Sequence[tuple[StepDir, tuple[OverflowEntry, ...]]]) -> None:
        for step, entries in overflow[:_MANY]:
            producers = [entry for entry in entries if entry.role == "producer"]
            carriers = [entry for entry in entries if entry.role == "carrier"]
            self.console.print()
            self.line(
                Text(f"NaN or Inf in step {step.step}, rank {step.rank}", "bold red"),
                f": {_count(len(producers), 'op')} made it, {_count(len(carriers), 'op')} "
                "passed it on",
            )
            for entry in producers[:_MANY]:
                self._producer(entry)
            self._rest(len(producers))
            for entry in carriers[:3]:
                origin = f" from {entry.origin}" if entry.origin else ""
                if entry.origin_step is not None:
                    origin += f" in step {entry.origin_step}"
                self.line(Text("passed on by ", "dim"), entry.op, Text(origin, "dim"), indent=2)
        self._rest(len(overflow), "steps")

    def _producer(self, entry: OverflowEntry) -> None:
        note = f", {entry.phase}" if entry.phase else ""
        if entry.by_argument:
            note += f", asked to: {entry.by_argument}"
        self.line(Text("made by ", "dim"), Text(entry.op, "bold"), note, indent=2)
        self._source(entry.source)
        rows = [
            (f"{io}.{tensor.get('slot', slot)}", _spec_text(tensor), _entry_values(tensor))
            for io, tensors in (("input", entry.inputs), ("output", entry.outputs))
            for slot, tensor in enumerate(tensors)
        ]
        self._rows(rows, {})

    def _rest(self, total: int, what: str = "ops") -> None:
        if total > _MANY:
            self.line(Text(f"and {total - _MANY:,} more {what}", "dim"), indent=2)

    def tensors(self, listed: Iterable[Listed], *, with_values: bool) -> None:
        """The tensors of each op under its name and source line."""
        previous: object = None
        group: list[Listed] = []
        for each in listed:
            key = each.record.key
            place = (each.record.rank, each.record.graph_id, key.step, key.order, key.op)
            if place != previous:
                self._op(group, with_values=with_values)
                group, previous = [], place
            group.append(each)
        self._op(group, with_values=with_values)

    def _op(self, group: Sequence[Listed], *, with_values: bool) -> None:
        if not group:
            return
        record = group[0].record
        phase = "" if record.node is None else f", {record.node.phase}"
        rank = f", rank {record.rank}" if record.rank else ""
        self.line(Text(record.key.op, "bold"))
        self._source(record.source, f"step {record.key.step}{rank}{phase}  ")
        rows, values = [], {}
        for index, each in enumerate(group):
            place = f"{each.record.key.io}.{each.record.key.slot}"
            if each.summary.problem is not None:
                rows.append((place, f"damaged: {each.summary.problem}", {}))
                continue
            spec = f"{each.record.dtype}{list(each.record.shape)}"
            rows.append((place, spec, each.summary.values))
            if with_values:
                values[index] = _values_text(each.record)
        self._rows(rows, values)
        self.console.print()

    def _source(self, source: Source | None, when: str = "") -> None:
        place = Text("" if source is None else f"{source}  ", "cyan")
        code = "" if source is None else source.code.strip()
        if when or source is not None:
            self.line(Text(when, "dim"), place, code, indent=4)

    def _rows(
        self, rows: Sequence[tuple[str, str, dict[str, Number]]], values: dict[int, str]
    ) -> None:
        """Rows in columns; where a row is too wide its numbers go on the next line."""
        places = _aligned([place for place, _, _ in rows])
        specs = _aligned([spec for _, spec, _ in rows])
        columns = [_column(title, [found for _, _, found in rows]) for title in _titles(rows)]
        for index, (_, _, found) in enumerate(rows):
            head = f"{places[index]}  {specs[index]}"
            numbers = Text("  ".join(column[index] for column in columns))
            self._row(head, numbers, _notes(found))
            for line in values.get(index, "").splitlines():
                self.line(line, indent=6)

    def _row(self, head: str, numbers: Text, notes: Text) -> None:
        numbers.rstrip()
        one_line = Text("  ").join(part for part in (Text(head), numbers, notes) if part.plain)
        if 4 + len(one_line) <= self.console.width:
            self.line(one_line, indent=4)
        elif 6 + len(head) + len(numbers) <= self.console.width:
            self.line(head, "  ", numbers, indent=4)
            self.line(notes, indent=6)
        else:
            self.line(head.rstrip(), indent=4)
            self.line(numbers, "  ", notes, indent=6)

    def more(self, more: int, problems: Sequence[Problem]) -> None:
        if more:
            self.line(f"and {more:,} more tensors; --limit 0 shows all")
        self._problems(problems)

    def _problems(self, problems: Sequence[Problem]) -> None:
        if problems:
            self.console.print()
            self.line(Text(f"{_count(len(problems), 'problem')}:", "yellow"))
            for problem in problems[:_MANY]:
                self.line(str(problem), indent=2)
            self._rest(len(problems), "problems")


def _table(*titles: str, left: Iterable[str] = ()) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for index, title in enumerate(titles):
        is_left = title in left or (index == 0 and len(title) > 4)
        table.add_column(title, justify="left" if is_left else "right", overflow="fold")
    return table


def _aligned(texts: Sequence[str]) -> list[str]:
    width = max(map(len, texts), default=0)
    return [text.ljust(width) for text in texts]


def _column(title: str, rows: Sequence[dict[str, Number]]) -> list[str]:
    """One statistic of every row, with its name; blank where a row lacks it."""
    label = _COLUMNS[title]
    return _aligned([f"{label} {number_text(row[title])}" if title in row else "" for row in rows])


def _titles(rows: Sequence[tuple[str, str, dict[str, Number]]]) -> list[str]:
    """The statistics to show: the norm only where there is no mean."""
    known = {name for _, _, found in rows for name in found}
    return [name for name in _COLUMNS if name in known and (name != "l2norm" or "avg" not in known)]


def _notes(found: dict[str, Number]) -> Text:
    parts = []
    for name, label in (
        ("nan count", "nan"),
        ("positive inf count", "+inf"),
        ("negative inf count", "-inf"),
    ):
        if count := found.get(name):
            parts.append(Text(f"{count:,} {label}", "bold red"))
    if parts and (extremes := _finite_extremes(found)):
        parts.append(Text(extremes))
    zeros, total = found.get("zero count"), found.get("count")
    if isinstance(zeros, int) and zeros:
        share = f" ({zeros / total:.0%})" if isinstance(total, int) and total else ""
        parts.append(Text(f"{_count(zeros, 'zero')}{share}", "dim"))
    return Text("  ").join(parts)


def _finite_extremes(found: dict[str, Number]) -> str:
    """The extremes of the finite values, where others hide them."""
    low, high = found.get("finite min"), found.get("finite max")
    if low is None or high is None or "nan" in (number_text(low), number_text(high)):
        return ""
    return f"finite {number_text(low)} to {number_text(high)}"


def _spec_text(tensor: dict[str, Any]) -> str:
    return f"{tensor.get('dtype', '')}{tensor.get('shape', '')}"


def _entry_values(tensor: dict[str, Any]) -> dict[str, Number]:
    """Statistics of ``overflow.json`` by category."""
    return {
        name.replace("_", " "): float(value) if value in _NON_FINITE else value
        for name, value in tensor.items()
        if name not in ("slot", "dtype", "shape") and isinstance(value, int | float | str)
    }


def _values_text(record: TensorRecord) -> str:
    try:
        return np.array2string(record.numpy(), threshold=60, edgeitems=3, precision=4)
    except DumpError as error:
        return error.message


def number_text(number: Number) -> str:
    return f"{number:.4g}" if isinstance(number, float) else str(number)


def size_text(nbytes: int) -> str:
    """``12.4 MB``: powers of 1000, three figures."""
    size, unit = float(nbytes), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 999.5 or unit == "TB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.3g} {unit}"


def steps_text(steps: Sequence[int]) -> str:
    """``0|5-8``"""
    return str(parse_steps("|".join(map(str, steps)))) if steps else "none"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
