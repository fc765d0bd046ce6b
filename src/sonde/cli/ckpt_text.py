"""Formats the results of ``sonde ckpt`` as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from sonde.cli.ckpt_files import print_line
from sonde.compare.weights.checkpoint import Checkpoint
from sonde.compare.weights.convert import Conversion
from sonde.compare.weights.diff import CheckpointDiff, WeightDifference
from sonde.compare.weights.listing import WIDE, cell, number, shape_text, table
from sonde.compare.weights.pair import ParameterPairing
from sonde.core.finding import Finding, as_fields
from sonde.core.text.number_text import count_text
from sonde.core.text.terminal_text import printable

_STYLES = {"error": "bold red", "warning": "yellow", "info": "dim"}
_LISTED = 40


def print_diff(out: Console, found: CheckpointDiff) -> None:
    """Changed weights, most changed first; then the unchanged, the unpaired and a count."""
    changed = [each for each in found.changes if not each.is_same]
    if changed:
        out.print(_changes(changed, is_wide=out.width >= WIDE))
    same = [each for each in found.changes if each.is_same]
    if changed and same:
        print_line(out, f"unchanged: {_listed([each.pair.a for each in same])}")
    if found.stuck:
        print_line(
            out,
            f"{len(found.stuck)} are trainable by name but did not change while others did: "
            "frozen, unused, or without a gradient?",
            "yellow",
        )
    _print_unpaired(out, found)
    broken = [each for each in found.changes if each.non_finite_b]
    if broken:
        print_line(out, f"NaN or Inf in b: {_listed([each.pair.b for each in broken])}", "bold red")
    total = len(found.changes)
    text = "equal, bit for bit" if found.is_same else "not equal"
    text += f": {len(changed)} of {total} changed, {len(same)} unchanged"
    unpaired = _unpaired_count(found)
    out.print(text + (f", {unpaired} on one side only" if unpaired else ""), style="bold")


def _changes(changed: Sequence[WeightDifference], *, is_wide: bool) -> Any:
    broken = any(each.non_finite_a or each.non_finite_b for each in changed)
    titles = ["~weight", "shape", ">change", ">max abs", ">cosine", ">equal"]
    titles += [">mean abs"] if is_wide else []
    shown = table(*titles, *([">nan/inf a", ">nan/inf b"] if broken else []))
    for each in sorted(changed, key=_by_change):
        found = each.distances
        name = each.pair.a if each.pair.a == each.pair.b else f"{each.pair.a} -> {each.pair.b}"
        types = "" if each.a.dtype == each.b.dtype else f" {each.a.dtype} -> {each.b.dtype}"
        fit = "" if each.pair.fit.is_plain else f" {each.pair.fit}"
        numbers = ["not compared", "", "", "", ""]
        if found is not None:
            share = f"{found.equal_count / found.count:.1%}" if found.count else ""
            numbers = [number(each.relative), number(found.max_abs_error), number(found.cosine)]
            numbers += [share, number(found.mean_abs_error)]
        bad = [cell(str(n or ""), "bold red") for n in (each.non_finite_a, each.non_finite_b)]
        shown.add_row(
            cell(name),
            f"{shape_text(each.a.shape)}{fit}{types}",
            *(numbers if is_wide else numbers[:4]),
            *(bad if broken else []),
        )
    return shown


def _by_change(change: WeightDifference) -> tuple[bool, float]:
    """Sort key: weights with NaN or Inf first, then by how much they changed."""
    relative = change.relative
    return change.non_finite_b == 0, -relative if relative == relative else float("-inf")


def _print_unpaired(out: Console, found: CheckpointDiff) -> None:
    pairing = found.pairing
    print_misshaped(out, pairing)
    for label, names in (
        ("only in a", pairing.only_a),
        ("only in b", pairing.only_b),
        ("optimizer state, only in a", pairing.state_a),
        ("optimizer state, only in b", pairing.state_b),
        ("counters, on one side only", pairing.counters),
    ):
        if names:
            print_line(out, f"{label}: {_listed(names)}")
    for flat in pairing.flat:
        print_line(
            out,
            f"{printable(flat.flat)} is the flat form of {_listed(flat.parts)}: not compared here",
        )


def print_misshaped(out: Console, pairing: ParameterPairing) -> None:
    for each in pairing.misshaped:
        text = (
            f"other shape: {each.a} {shape_text(each.shape_a)} against "
            f"{each.b} {shape_text(each.shape_b)}"
        )
        print_line(out, cell(text, "bold red"))


def pairing_json(pairing: ParameterPairing) -> dict[str, Any]:
    """The parameters without a counterpart."""
    unpaired = ("only_a", "only_b", "counters", "state_a", "state_b")
    return {
        "misshaped": [asdict(each) for each in pairing.misshaped],
        **{name: list(getattr(pairing, name)) for name in unpaired},
    }


def _unpaired_count(found: CheckpointDiff) -> int:
    pairing = found.pairing
    sides = (pairing.only_a, pairing.only_b, pairing.state_a, pairing.state_b, pairing.counters)
    return sum(map(len, sides))


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(printable(name) for name in names[:_LISTED])
    return shown + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")


def diff_json(a: Checkpoint, b: Checkpoint, found: CheckpointDiff) -> dict[str, Any]:
    return {
        "a": str(a.path),
        "b": str(b.path),
        "equal": found.is_same,
        "changed": sum(not each.is_same for each in found.changes),
        "unchanged": [each.pair.a for each in found.changes if each.is_same],
        "stuck": [each.pair.a for each in found.stuck],
        "weights": [
            {
                "a": each.pair.a,
                "b": each.pair.b,
                "how": each.pair.how,
                "role": each.role,
                "equal": each.is_same,
                "dtype_a": each.a.dtype,
                "dtype_b": each.b.dtype,
                "shape": list(each.a.shape),
                "non_finite_a": each.non_finite_a,
                "non_finite_b": each.non_finite_b,
                "distances": None if each.distances is None else asdict(each.distances),
            }
            for each in found.changes
        ],
        **pairing_json(found.pairing),
    }


def print_check(out: Console, checkpoint: Checkpoint, findings: Sequence[Finding]) -> None:
    shown = table("", "rule", "~finding", "~advice")
    for finding in findings:
        shown.add_row(
            cell(finding.severity, _STYLES[finding.severity]),
            finding.rule,
            cell(finding.message),
            cell(finding.advice, "dim"),
        )
    if findings:
        out.print(shown)
    bare = sum(weight.load is None for weight in checkpoint.weights.values())
    if bare:
        print_line(
            out,
            f"{bare} weights have only statistics: they were checked for NaN and Inf only",
            "yellow",
        )
    counts = {kind: sum(each.severity == kind for each in findings) for kind in _STYLES}
    print_line(
        out,
        f"{printable(str(checkpoint.path))}: {len(checkpoint.weights)} weights, "
        f"{checkpoint.count:,} elements; {count_text(counts['error'], 'error')}, "
        f"{count_text(counts['warning'], 'warning')}",
        "bold",
    )


def check_json(checkpoint: Checkpoint, findings: Sequence[Finding]) -> dict[str, Any]:
    return {
        "path": str(checkpoint.path),
        "format": checkpoint.format,
        "weights": len(checkpoint.weights),
        "elements": checkpoint.count,
        "findings": [
            {
                "rule": finding.rule,
                "severity": finding.severity,
                **finding.evidence,
                **as_fields(finding),
            }
            for finding in findings
        ],
    }


def print_conversion(out: Console, a: Path, b: Path, done: Conversion) -> None:
    if done.renamed:
        shown = table("~was", "~is")
        for old, new in done.renamed.items():
            shown.add_row(cell(old), cell(new))
        out.print(shown)
    if done.dropped:
        print_line(out, f"omitted, without a counterpart: {_listed(done.dropped)}")
    print_line(
        out,
        f"{printable(str(b))}: {done.count} weights of {printable(str(a))}, {len(done.renamed)} "
        "renamed; read back and verified bit for bit",
        "bold",
    )


def conversion_json(a: Path, b: Path, target: str, done: Conversion) -> dict[str, Any]:
    return {
        "a": str(a),
        "b": str(b),
        "to": target,
        "weights": done.count,
        "names": dict(done.names),
        "dropped": list(done.dropped),
    }
