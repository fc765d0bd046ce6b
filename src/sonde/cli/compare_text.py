"""Prints the result of ``sonde compare``, the first divergence at the top."""

from __future__ import annotations

from collections import Counter
from math import isnan

from rich.console import Console
from rich.text import Text

from sonde.compare.runs.headline import comparison_headline, on_ranks
from sonde.compare.runs.result import DivergenceStart, OpPair, RunComparison, TensorPair
from sonde.compare.weights.listing import table
from sonde.core.graph import Source
from sonde.core.text.number_text import count_text, scientific

_COLOURS = {"aligned": "green", "diverged": "red", "incomparable": "yellow"}
_MOST = 8


def print_comparison(comparison: RunComparison, console: Console, *, limit: int = _MOST) -> None:
    """Print verdict, first divergence, reasons, the worst pairs and the unpaired ops."""
    colour = _COLOURS[comparison.verdict]
    _print_line(console, (comparison.verdict, f"bold {colour}"), f"  {_headline(comparison)}")
    headline = comparison_headline(comparison)
    if headline is not None:
        _print_line(console, "\n", (headline.text, "bold"))
    if comparison.first_divergence is not None:
        _print_divergence(comparison.first_divergence, console)
    if comparison.reasons:
        console.print()
        for reason in comparison.reasons:
            _print_line(console, f"  {reason}")
    for note in comparison.notes:
        _print_line(console, "  ", ("note:", "yellow"), f" {note}")
    _print_losses(comparison, console)
    _print_pairs(comparison, console, limit)
    _print_unpaired(comparison, console, limit)


def _print_line(console: Console, *parts: str | tuple[str, str]) -> None:
    """Print one line without wrapping; a part may have a style. Names are not parsed as markup."""
    console.print(Text.assemble(*parts), soft_wrap=True)


def _headline(comparison: RunComparison) -> str:
    pairs = sum(bool(pair.tensors) for pair in comparison.pairs)
    by = {"statistics": ", by statistics", "both": ", partly by statistics"}
    return (
        f"{pairs} pairs in {count_text(len(comparison.steps), 'step')}{by.get(comparison.by, '')}"
        f"\n  a {comparison.a.path}\n  b {comparison.b.path}"
    )


def _print_divergence(found: DivergenceStart, console: Console) -> None:
    pair, tensor = found.pair, found.tensor
    certain = "" if found.confidence == "high" else " (low confidence)"
    place = f"{certain}: step {pair.step}{on_ranks(pair)}, {pair.phase}"
    _print_line(console, "\n", ("First divergence", "bold"), place)
    for label, name, source, its in (
        ("a", pair.a, pair.source_a, tensor.a),
        ("b", pair.b, pair.source_b, tensor.b),
    ):
        _print_line(console, f"  {label} ", (name, "bold"))
        if str(its) != name and its.parameter is not None:
            _print_line(console, f"    tensor {its}")
        if source is not None:
            _print_line(console, "    ", (_place(source), "cyan"))
    _print_line(console, "  ", (found.cause, "bold"))
    _print_line(console, f"  {describe_tensor(tensor)}")
    _print_line(
        console,
        f"  relative error {scientific(tensor.error)}; of its inputs "
        f"{scientific(pair.input_error)}; tolerance {scientific(pair.allowed)}",
    )
    if found.inheritors:
        console.print(f"  {found.inheritors} later pairs inherit it")


def _place(source: Source) -> str:
    return f"{source}  {source.code.strip()}" if source.code else str(source)


def describe_tensor(tensor: TensorPair) -> str:
    """The distances of one pair of tensors in a line."""
    found = tensor.distances
    if tensor.problem is not None:
        return tensor.problem
    if found is None:
        return f"by statistics: relative difference {scientific(tensor.error)}"
    share = found.within_1 / found.finite_count if found.finite_count else float("nan")
    parts = [
        f"max abs {scientific(found.max_abs_error)}",
        f"max rel {scientific(found.max_relative_error)}",
        f"mean rel {scientific(found.mean_relative_error)}",
        f"cosine {found.cosine:.6f}",
        f"{100 * share:.3g}% within 1/1000",
    ]
    if not isnan(found.max_ulp):
        parts.append(f"{found.max_ulp:.0f} ULP")
    if found.non_finite_disagreed:
        parts.append(f"NaN/Inf disagree in {found.non_finite_disagreed} of {found.count}")
    if tensor.layout:
        parts.append(tensor.layout)
    return ", ".join(parts)


def _print_losses(comparison: RunComparison, console: Console) -> None:
    known = [
        (loss, loss.a, loss.b)
        for loss in comparison.losses
        if loss.a is not None and loss.b is not None
    ]
    if not known:
        return
    console.print("\nLosses")
    shown = table(">step", ">a", ">b", ">relative difference", "")
    for loss, a, b in known[:_MOST]:
        size = max(abs(a), abs(b))
        difference = abs(a - b) / size if size else 0.0
        verdict = Text("" if loss.agrees else "differ", "red")
        shown.add_row(str(loss.step), f"{a:.7g}", f"{b:.7g}", scientific(difference), verdict)
    console.print(shown)
    if len(known) > _MOST:
        console.print(f"  and {len(known) - _MOST} more steps")


def _print_pairs(comparison: RunComparison, console: Console, limit: int) -> None:
    counts = Counter(pair.status for pair in comparison.pairs)
    text = ", ".join(f"{count} {status}" for status, count in counts.most_common())
    _print_line(console, f"\nPairs: {text}")
    shown = [pair for pair in comparison.pairs if pair.status in ("diverged", "incomparable")]
    if not shown:
        shown = sorted(
            (pair for pair in comparison.pairs if pair.error > 0), key=lambda each: -each.error
        )[:limit]
        if shown:
            console.print("  the largest errors, all explained by rounding:")
    for pair in shown[:limit]:
        _print_line(console, f"  {_pair_line(pair)}")
    if len(shown) > limit:
        console.print(f"  and {len(shown) - limit} more; see --html or --csv")


def _pair_line(pair: OpPair) -> str:
    name = pair.a if pair.a == pair.b else f"{pair.a} ~ {pair.b}"
    return f"step {pair.step} {pair.status} {scientific(pair.error)} {name}"


def _print_unpaired(comparison: RunComparison, console: Console, limit: int) -> None:
    """Print each unpaired op once, ops that compute something first."""
    once = {(each.side, each.name): each for each in reversed(comparison.unpaired)}
    if not once:
        return
    real = [each for each in once.values() if each.role != "trivial"]
    real.sort(key=lambda each: (each.side, each.step))
    rest = len(once) - len(real)
    sides = Counter(each.side for each in once.values())
    of_them = f" ({rest} of them only pass values on or reserve memory)" if rest else ""
    _print_line(console, f"\nUnpaired ops: {sides['a']} of a, {sides['b']} of b{of_them}")
    for each in real[:limit]:
        _print_line(console, f"  {each.side} {each.name}")
    if len(real) > limit:
        console.print(f"  and {len(real) - limit} more; see --json")
