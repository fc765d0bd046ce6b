"""What ``sonde compare`` says in the terminal: the first divergence on top."""

from __future__ import annotations

from collections import Counter
from math import isfinite, isnan

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sonde.compare.result import Comparison, Divergence, OpPair, TensorPair
from sonde.core.graph import Source

_COLOURS = {"aligned": "green", "diverged": "red", "incomparable": "yellow"}
_MOST = 8


def print_comparison(comparison: Comparison, console: Console, *, limit: int = _MOST) -> None:
    """Verdict, first divergence, reasons, the worst pairs, what has no counterpart."""
    colour = _COLOURS[comparison.verdict]
    _say(console, (comparison.verdict, f"bold {colour}"), f"  {_headline(comparison)}")
    if comparison.first_divergence is not None:
        _print_divergence(comparison.first_divergence, console)
    if comparison.reasons:
        console.print()
        for reason in comparison.reasons:
            _say(console, f"  {reason}")
    for note in comparison.notes:
        _say(console, "  ", ("note:", "yellow"), f" {note}")
    _print_losses(comparison, console)
    _print_pairs(comparison, console, limit)
    _print_unpaired(comparison, console, limit)


def _say(console: Console, *parts: str | tuple[str, str]) -> None:
    """A line, however long; a part may have a style. Names are never read as markup."""
    console.print(Text.assemble(*parts), soft_wrap=True)


def _headline(comparison: Comparison) -> str:
    steps = len(comparison.steps)
    pairs = sum(bool(pair.tensors) for pair in comparison.pairs)
    by = {"statistics": ", by statistics", "both": ", partly by statistics"}
    return (
        f"{pairs} pairs in {steps} step{'' if steps == 1 else 's'}{by.get(comparison.by, '')}"
        f"\n  a {comparison.a.path}\n  b {comparison.b.path}"
    )


def _print_divergence(found: Divergence, console: Console) -> None:
    pair, tensor = found.pair, found.tensor
    certain = "" if found.confidence == "high" else " (low confidence)"
    place = f"{certain}: step {pair.step}, {pair.phase}"
    _say(console, "\n", ("First divergence", "bold"), place)
    for label, name, source, its in (
        ("a", pair.a, pair.source_a, tensor.a),
        ("b", pair.b, pair.source_b, tensor.b),
    ):
        _say(console, f"  {label} ", (name, "bold"))
        if str(its) != name and its.parameter is not None:
            _say(console, f"    tensor {its}")
        if source is not None:
            _say(console, "    ", (_place(source), "cyan"))
    _say(console, "  ", (found.cause, "bold"))
    _say(console, f"  {describe_tensor(tensor)}")
    _say(
        console,
        f"  relative error {number(tensor.error)}; its inputs' {number(pair.input_error)}; "
        f"allowed {number(pair.allowed)}",
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
        return f"by statistics: relative difference {number(tensor.error)}"
    share = found.within_1 / found.finite_count if found.finite_count else float("nan")
    parts = [
        f"max abs {number(found.max_abs_error)}",
        f"max rel {number(found.max_relative_error)}",
        f"mean rel {number(found.mean_relative_error)}",
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


def number(value: float) -> str:
    if value == 0 or not isfinite(value):
        return "0" if value == 0 else str(value)
    return f"{value:.2e}"


def _print_losses(comparison: Comparison, console: Console) -> None:
    known = [loss for loss in comparison.losses if loss.a is not None and loss.b is not None]
    if not known:
        return
    console.print("\nLosses")
    table = Table(box=None, pad_edge=False)
    for title in ("step", "a", "b", "relative difference", ""):
        table.add_column(title, justify="right" if title else "left")
    for loss in known[:_MOST]:
        assert loss.a is not None
        assert loss.b is not None
        size = max(abs(loss.a), abs(loss.b))
        difference = abs(loss.a - loss.b) / size if size else 0.0
        verdict = Text("" if loss.agrees else "differ", "red")
        table.add_row(str(loss.step), f"{loss.a:.7g}", f"{loss.b:.7g}", number(difference), verdict)
    console.print(table)
    if len(known) > _MOST:
        console.print(f"  and {len(known) - _MOST} more steps")


def _print_pairs(comparison: Comparison, console: Console, limit: int) -> None:
    counts = Counter(pair.status for pair in comparison.pairs)
    text = ", ".join(f"{count} {status}" for status, count in counts.most_common())
    _say(console, f"\nPairs: {text}")
    shown = [pair for pair in comparison.pairs if pair.status in ("diverged", "incomparable")]
    if not shown:
        shown = sorted(
            (pair for pair in comparison.pairs if pair.error > 0), key=lambda each: -each.error
        )[:limit]
        if shown:
            console.print("  the largest errors, all explained by rounding:")
    for pair in shown[:limit]:
        _say(console, f"  {_pair_line(pair)}")
    if len(shown) > limit:
        console.print(f"  and {len(shown) - limit} more; --html and --csv have all")


def _pair_line(pair: OpPair) -> str:
    name = pair.a if pair.a == pair.b else f"{pair.a} ~ {pair.b}"
    return f"step {pair.step} {pair.status} {number(pair.error)} {name}"


def _print_unpaired(comparison: Comparison, console: Console, limit: int) -> None:
    """Each op once, those that compute something first."""
    once = {(each.side, each.name): each for each in reversed(comparison.unpaired)}
    if not once:
        return
    dull = ("only hands values on", "reserves memory")
    real = [each for each in once.values() if each.reason not in dull]
    real.sort(key=lambda each: (each.side, each.step))
    rest = len(once) - len(real)
    sides = Counter(each.side for each in once.values())
    of_them = f" ({rest} of them only hand values on or reserve memory)" if rest else ""
    _say(console, f"\nUnpaired ops: {sides['a']} of a, {sides['b']} of b{of_them}")
    for each in real[:limit]:
        _say(console, f"  {each.side} {each.name}")
    if len(real) > limit:
        console.print(f"  and {len(real) - limit} more; --json has all")
