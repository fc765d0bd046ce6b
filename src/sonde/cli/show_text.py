"""Prints a dump in the terminal, for ``sonde show``. Long lines are folded, never cut."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TextIO

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sonde.cli.show_format import (
    aligned,
    joined,
    notes_text,
    overflow_spec,
    overflow_values,
    shown_statistics,
    spec_text,
    statistic_column,
    steps_text,
    values_text,
)
from sonde.cli.terminal import Terminal
from sonde.core.graph import Graph, Source
from sonde.core.text.number_text import count_text, size_text
from sonde.core.text.terminal_text import printable
from sonde.dump.reader import GRAPHS_ONLY, Dump
from sonde.dump.reading.directories import DumpProblem, StepDir
from sonde.dump.reading.side_files import OverflowEntry
from sonde.dump.reading.statistic_rows import Number
from sonde.dump.summary import StepSummary, TensorSummary
from sonde.dump.tensor_record import TensorRecord

_MANY = 12
_UNLIMITED_WIDTH = 100_000
_VERDICTS = {
    "finite": "all observed values were finite",
    "harmless": "those found did no harm",
    "unknown": "the run was observed only in part, and none was found",
}
_WRITERS = {
    "sonde": "Sonde",
    "mindspore": "MindSpore",
    "msprobe": "msprobe",
    None: "an unknown program",
}


@dataclass(frozen=True, slots=True)
class Listed:
    """A tensor and its statistics."""

    record: TensorRecord
    summary: TensorSummary


@dataclass(frozen=True, slots=True)
class Page:
    """Draws on one console."""

    console: Console

    @classmethod
    def on(cls, stream: TextIO) -> Page:
        """A page that folds lines at the width of the terminal; in a pipe it does not fold."""
        is_free = not stream.isatty() and "COLUMNS" not in os.environ
        width = _UNLIMITED_WIDTH if is_free else None
        return cls(Terminal(file=stream, width=width, highlight=False, markup=False, emoji=False))

    def line(self, *parts: str | Text, indent: int = 0) -> None:
        shown = (printable(part) if isinstance(part, str) else part for part in parts)
        text = Text.assemble(*shown, overflow="fold")
        self.console.print(Padding(text, (0, 0, 0, indent), expand=False))

    def lines(self, texts: Iterable[str]) -> None:
        for text in texts:
            self.line(text)

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
        named = dump.nets(rank) or dict.fromkeys(graph.name for graph in dump.graphs(rank))
        nets = ", ".join(named) or "no network"
        self.line(Text(str(dump.path), "bold"), f": {nets}, by {maker}")
        self._overflow(overflow)
        self.console.print()
        self._graph_table(dump, rank, steps)
        if graphs := dump.graphs(rank):
            busiest = max(graphs, key=lambda graph: len(dump.steps(graph_id=graph.id, rank=rank)))
            self._type_table(busiest, dump.execution_order(busiest.id, rank))
        self._problems(dump.problems)
        self.console.print()
        if steps:
            step = steps[-1].step.step
            self.line("Tensors: ", Text(f"sonde show {dump.path} --step {step}", "cyan"))

    def _graph_table(self, dump: Dump, rank: int | None, steps: Sequence[StepSummary]) -> None:
        table = _table("rank", "graph", "steps", "ops", "tensors", "size", left={"steps"})
        ops = {graph.id: len(dump.execution_order(graph.id)) for graph in dump.graphs()}
        groups: dict[tuple[int, str, int | None], list[StepSummary]] = {}
        for each in steps:
            place = (each.step.rank, each.step.net, each.step.graph_id)
            groups.setdefault(place, []).append(each)
        for (number, _, graph_id), members in groups.items():
            table.add_row(
                str(number),
                "unfinished" if graph_id is None else str(graph_id),
                steps_text([each.step.step for each in members]),
                "" if graph_id is None else f"{ops[graph_id]:,}" if graph_id in ops else "?",
                f"{sum(each.tensors for each in members):,}",
                size_text(sum(each.nbytes for each in members)),
            )
        if groups:
            self.console.print(table)
        elif graphs := dump.graphs(rank):
            sizes = [f"{count_text(len(each.ops), 'op')} in graph {each.id}" for each in graphs]
            more = ", ..." if len(sizes) > _MANY else ""
            is_whole = dump.why_no_values(rank) == GRAPHS_ONLY
            what = "Graphs only, no values" if is_whole else "The values cannot be read; graphs"
            self.line(f"{what}: {', '.join(sizes[:_MANY])}{more}")
            self.line("View them: ", Text(f"sonde view {dump.path}", "cyan"))
        else:
            for number, verdict in dump.verdicts(rank).items():
                found = _VERDICTS.get(verdict, verdict)
                self.line(f"Rank {number} was searched for NaN and Inf: {found}.")
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
            others = count_text(len(ordered) - _MANY, "other type")
            table.add_row(f"{others}: {count_text(rest, 'op')}")
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
                f": {count_text(len(producers), 'op')} produced it, "
                f"{count_text(len(carriers), 'op')} propagated it",
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
            (
                f"{io}.{tensor.get('slot', slot)}",
                overflow_spec(tensor),
                overflow_values(tensor),
            )
            for io, tensors in (("input", entry.inputs), ("output", entry.outputs))
            for slot, tensor in enumerate(tensors)
        ]
        self._rows(rows, {})

    def _rest(self, total: int, what: str = "ops") -> None:
        if total > _MANY:
            self.line(Text(f"and {total - _MANY:,} more {what}", "dim"), indent=2)

    def tensors(self, listed: Iterable[Listed], *, index: str | None) -> None:
        """Print the tensors of each op under its name and source line."""
        previous: object = None
        group: list[Listed] = []
        for each in listed:
            key = each.record.key
            place = (each.record.rank, each.record.graph_id, key.step, key.order, key.op)
            if place != previous:
                self._op(group, index)
                group, previous = [], place
            group.append(each)
        self._op(group, index)

    def _op(self, group: Sequence[Listed], index: str | None) -> None:
        if not group:
            return
        record = group[0].record
        phase = "" if record.node is None else f", {record.node.phase}"
        rank = f", rank {record.rank}" if record.rank else ""
        self.line(Text(record.key.op, "bold"))
        self._source(record.source, f"step {record.key.step}{rank}{phase}")
        rows: list[tuple[str, str, dict[str, Number]]] = []
        values: dict[int, str] = {}
        for number, each in enumerate(group):
            place = f"{each.record.key.io}.{each.record.key.slot}"
            if each.summary.problem is not None:
                rows.append((place, f"damaged: {each.summary.problem}", {}))
                continue
            spec = spec_text(each.record.dtype, each.record.shape)
            rows.append((place, spec, each.summary.values))
            if index is not None:
                values[number] = values_text(each.record, index)
        self._rows(rows, values)
        self.console.print()

    def _source(self, source: Source | None, when: str = "") -> None:
        parts = [Text(when, "dim")]
        if source is not None:
            parts += [Text(str(source), "cyan"), Text(source.code.strip())]
        if text := joined(*parts):
            self.line(text, indent=4)

    def _rows(
        self, rows: Sequence[tuple[str, str, dict[str, Number]]], values: dict[int, str]
    ) -> None:
        """Print rows in columns; the numbers of a row that is too wide go on the next line."""
        if not rows:  # an op without tensors
            return
        places = aligned([place for place, _, _ in rows])
        specs = aligned([spec for _, spec, _ in rows])
        numbers = _numbers([found for _, _, found in rows], 4)
        if max(map(len, numbers)) + len(places[0]) + len(specs[0]) + 8 > self.console.width:
            numbers = _numbers([found for _, _, found in rows], 3)
        for index, (_, _, found) in enumerate(rows):
            head = f"{places[index]}  {specs[index]}"
            self._row(head, Text(numbers[index]), notes_text(found))
            for line in values.get(index, "").splitlines():
                self.line(line, indent=6)

    def _row(self, head: str, numbers: Text, notes: Text) -> None:
        numbers.rstrip()
        one_line = joined(Text(head), numbers, notes)
        if 4 + len(one_line) <= self.console.width:
            self.line(one_line, indent=4)
        elif 6 + len(head) + len(numbers) <= self.console.width:
            self.line(head, "  ", numbers, indent=4)
            self.line(notes, indent=6)
        else:
            self.line(head.rstrip(), indent=4)
            self.line(joined(numbers, notes), indent=6)

    def more(self, more: int, problems: Sequence[DumpProblem]) -> None:
        if more:
            self.line(f"and {more:,} more tensors; --limit 0 shows all")
        self._problems(problems)

    def _problems(self, problems: Sequence[DumpProblem]) -> None:
        if problems:
            self.console.print()
            self.line(Text(f"{count_text(len(problems), 'problem')}:", "yellow"))
            for problem in problems[:_MANY]:
                self.line(str(problem), indent=2)
            self._rest(len(problems), "problems")


def _table(*titles: str, left: Iterable[str] = ()) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for index, title in enumerate(titles):
        is_left = title in left or (index == 0 and len(title) > 4)
        table.add_column(title, justify="left" if is_left else "right", overflow="fold")
    return table


def _numbers(rows: Sequence[dict[str, Number]], digits: int) -> list[str]:
    """The statistics of each row, in columns."""
    columns = [statistic_column(title, rows, digits) for title in shown_statistics(rows)]
    return ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)] or [""] * len(rows)
