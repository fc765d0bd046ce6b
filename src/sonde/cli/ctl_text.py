"""Formats the answers of the server as lines of text, for ``sonde ctl``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sonde.core.text.number_text import count_text, duration, number_text
from sonde.core.text.problem_line import ProblemLine
from sonde.core.text.terminal_text import shortened

Json = Any


def run_lines(run: Json) -> Iterator[str]:
    """A run and its ranks."""
    yield f"{run['id']}  {run['title']}" + ("" if run["kind"] == "live" else "  (dump)")
    if run.get("headline"):
        yield f"  {run['headline']['text']}"
    for rank in run["ranks"]:
        yield f"  rank {rank['rank']}: {_state(rank)}"
        if rank["message"]:
            yield f"    {rank['message']}"
    for line in warning_lines(run["warnings"]):
        yield f"  {line}"
    for notice in run["notices"][-3:]:
        yield f"  {notice}"


def warning_lines(warnings: Sequence[Json]) -> Iterator[str]:
    """What the patterns of watchpoints do not match."""
    for each in warnings:
        yield ProblemLine(f"watchpoint {each['id']}: {each['text']}", slug="no-such-op")


def status_lines(run: Json) -> Iterator[str]:
    """A run and its ranks, with the address of each training process."""
    yield from run_lines(run)
    for rank in run["ranks"]:
        if rank["address"]:
            where = f"process {rank['metadata']['pid']} on {rank['metadata']['host']}"
            yield f"  rank {rank['rank']}: client {rank['address']}, {where}"


def _state(rank: Json) -> str:
    words = [rank["state"] if rank["is_answering"] else f"{rank['state']}, not answering"]
    if rank["reason"]:
        words.append(f"({rank['reason']})")
    words.append(f"step {rank['step']}")
    if rank["state"] == "paused" and rank["op"]:
        words.append(f"at {rank['op']}")
    if rank["hits"]:
        words.append(f"· {count_text(rank['hits'], 'hit')}")
    return " ".join(words)


def speed_lines(run: Json) -> Iterator[str]:
    """The speed of each rank, with Sonde and without."""
    for rank in run["ranks"]:
        took, bare = rank["seconds"], rank["bare_seconds"]
        if took is None:
            words = "not known before the first step has ended"
        elif bare is None:
            words = f"{duration(took)} a step with Sonde; without Sonde not known"
        else:
            words = f"{duration(took)} a step with Sonde, {duration(bare)} without"
        yield f"rank {rank['rank']}: {words}"
        if rank["is_measuring"]:
            yield "    one of the coming steps will run unobserved to measure the speed"


def watchpoint_lines(answer: Json) -> Iterator[str]:
    """The watchpoints of a run, and what their patterns do not match."""
    yield from map(watchpoint_line, answer["watchpoints"])
    yield from warning_lines(answer["warnings"])


def watchpoint_line(spec: Json) -> str:
    joined = " and " if spec["join"] == "all" else " or "
    conditions = joined.join(_condition(each) for each in spec["conditions"])
    name = f" {spec['name']!r}" if spec["name"] else ""
    where = f" on {', '.join(map(shortened, spec['ops'][:5]))}" if spec["ops"] else ""
    more = " …" if len(spec["ops"]) > 5 else ""
    off = "" if spec["enabled"] else " (off)"
    return f"{spec['id']}:{name} {conditions}{where}{more}{off}"


def _condition(condition: Json) -> str:
    if condition["expression"]:
        return str(condition["expression"])
    parameters = " ".join(f"{name}={value:g}" for name, value in condition["parameters"].items())
    return f"{condition['id']} {parameters}".strip()


def hits_lines(
    page: Json, names: Mapping[int, str] | None, hint: str = "", gaps: Sequence[str] = ()
) -> Iterator[str]:
    """The lines of a page of hits, and a count of hits that are not on it, followed by ``hint``.

    ``names``: of the watchpoints there are, by their numbers; None if there is only one.
    ``gaps``: what was not observed of the run.
    """
    for hit in page["hits"]:
        yield from _hit_lines(hit, _watchpoint_text(hit["watchpoint"], names))
    rest = page["total"] - len(page["hits"])
    if rest:
        yield f"and {rest} more{hint}"
    if page["dropped"]:
        yield f"{page['dropped']} other hits, neither the first nor the newest, were not kept"
    if not page["total"] + page["dropped"]:
        yield "no hits in what was observed" if gaps else "no hits"
    for gap in gaps:
        yield f"not observed: {gap}"


def _watchpoint_text(number: int, names: Mapping[int, str] | None) -> str:
    """The watchpoint of a hit, to be followed by its condition."""
    if names is None:
        return ""
    name = f" {names[number]!r}" if names.get(number) else ""
    removed = "" if number in names else " (removed)"
    return f"watchpoint {number}{name}{removed}: "


def _hit_lines(hit: Json, watchpoint: str) -> Iterator[str]:
    """The lines of a hit: where it is, how certain it is, and what was found."""
    mark = {"producer": "  <- makes it", "carrier": "  (passed on)"}.get(hit["part"], "")
    undecided = "" if hit["verdict"] == "hit" else "undecided: "
    yield (
        f"step {hit['step']} rank {hit['rank']}  {undecided}{watchpoint}{hit['condition']}  "
        f"{hit['op']} {hit['io']}.{hit['slot']}{mark}"
    )
    values = [_value(each) for each in hit["values"]]
    detail = ", ".join([*values, *([hit["why"]] if hit["why"] else [])])
    yield f"    {hit['status']}: {detail}" if detail else f"    {hit['status']}"
    if hit["source"]:
        source = hit["source"]
        yield f"    {source['file']}:{source['line']}  {source['code'].strip()}"
    if hit["part"] == "carrier" and hit["origin"]:
        yield f"    from {hit['origin']}"


def _value(value: Json) -> str:
    preset = "" if value["preset"] is None else f" (set: {number_text(value['preset'], 6)})"
    found = "" if value["actual"] is None else f" = {number_text(value['actual'], 6)}"
    return f"{value['name']}{found}{preset}"


def level_lines(level: Json) -> Iterator[str]:
    for node in level["nodes"]:
        if node["what"] == "outside":
            continue
        count = f" x{node['stands_for']}" if node["stands_for"] > 1 else ""
        ops = f"  {count_text(node['ops'], 'op')}" if node["what"] == "scope" or count else ""
        hits = f"  {count_text(node['hits'], 'hit')}" if node["hits"] else ""
        yield f"{node['path']}{count}  {node['type']}{ops}{hits}"
    if level["hidden"]:
        yield f"and {level['hidden']} more"


def summary_lines(summary: Json) -> Iterator[str]:
    tensor, kind = summary["tensor"], summary["type"]
    step = "latest step" if tensor["step"] is None else f"step {tensor['step']}"
    yield f"{tensor['op']} {tensor['io']}.{tensor['slot']} ({step})"
    yield f"{kind['dtype']} {kind['shape']}"
    for name, value in (summary["statistics"] or {}).items():
        yield f"  {name.replace('_', ' '):<20} {number_text(value, 6, missing='-')}"


def table_lines(table: Json) -> Iterator[str]:
    yield f"{table['index']}:"
    columns = table["columns"]
    for row in range(table["rows"]):
        values = table["values"][row * columns : (row + 1) * columns]
        yield "  " + "  ".join(f"{number_text(value, 6, missing='-'):>12}" for value in values)
