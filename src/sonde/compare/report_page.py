"""A comparison as one self-contained page: the path to the first divergence, plots, tables."""

from __future__ import annotations

import html
import json
from importlib import resources
from math import isfinite, isnan
from typing import Any

from sonde.compare.kinds import is_plumbing
from sonde.compare.report_data import document
from sonde.compare.result import Comparison, Divergence, OpPair, TensorPair
from sonde.core.graph import Source

_STATUSES = ("diverged", "inherited", "rounding", "within", "equal", "incomparable", "not dumped")
_MANY = 400


def page_text(comparison: Comparison) -> str:
    """The page; it loads nothing from anywhere."""
    parts = resources.files("sonde.compare") / "page_parts"
    style = (parts / "page.css").read_text("utf-8")
    script = (parts / "page.js").read_text("utf-8")
    data = json.dumps(_data(comparison), separators=(",", ":"), allow_nan=False)
    # Nothing in a name can end the element that holds the data.
    data = data.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>sonde compare: {comparison.verdict}</title>
<style>{style}</style></head><body><main>
{_header(comparison)}
{_divergence(comparison.first_divergence)}
{_reasons(comparison)}
{_plot()}
{_losses(comparison)}
{_parts(comparison)}
{_table()}
{_unpaired(comparison)}
</main><div class="tip" id="tip"></div>
<script type="application/json" id="comparison">{data}</script>
<script>{script}</script></body></html>
"""


def _data(comparison: Comparison) -> dict[str, Any]:
    whole = document(comparison)
    first = comparison.first_divergence
    return {
        "first": None if first is None else {"order": first.pair.order, "step": first.pair.step},
        "pairs": [
            _pair(pair, plain) for pair, plain in zip(comparison.pairs, whole["pairs"], strict=True)
        ],
    }


def _pair(pair: OpPair, plain: dict[str, Any]) -> dict[str, Any]:
    """What the page shows of a pair; ``plain`` has its numbers in JSON's terms."""
    keys = ("order", "step", "status", "a", "b", "error", "input_error", "allowed", "phase")
    more = ("kind", "how", "type_a", "type_b", "members_a", "members_b", "reads", "notes")
    worst = max(plain["tensors"], key=lambda each: each["error"] == plain["error"], default=None)
    distances = (worst or {}).get("distances") or {}
    return {
        **{key: plain[key] for key in (*keys, *more)},
        "leaf": pair.is_leaf,
        "plumbing": is_plumbing(pair.type_a) and pair.status != "diverged",
        "compared": bool(pair.tensors),
        "source_a": _place(pair.source_a),
        "source_b": _place(pair.source_b),
        "max_abs": distances.get("max_abs_error"),
        "max_rel": distances.get("max_relative_error"),
        "mean_rel": distances.get("mean_relative_error"),
        "cosine": distances.get("cosine"),
        "within": distances.get("within_1_permille"),
        "ulp": distances.get("max_ulp"),
        "tensors": [
            {
                "a": str(tensor.a),
                "b": str(tensor.b),
                "dtype_a": tensor.a.dtype,
                "dtype_b": tensor.b.dtype,
                "shape_a": ",".join(str(size) for size in tensor.a.shape),
                "shape_b": ",".join(str(size) for size in tensor.b.shape),
                "error": each["error"],
                "layout": tensor.layout,
                "problem": tensor.problem,
            }
            for tensor, each in zip(pair.tensors, plain["tensors"], strict=True)
        ],
    }


def _place(source: Source | None) -> str:
    return "" if source is None else f"{source}  {source.code}"


def _header(comparison: Comparison) -> str:
    compared = sum(bool(pair.tensors) for pair in comparison.pairs)
    by = {"statistics": ", by statistics", "both": ", partly by statistics"}
    steps = ", ".join(str(step) for step in comparison.steps[:12])
    return (
        f'<h1><span class="verdict {comparison.verdict}">{comparison.verdict}</span></h1>'
        f'<p class="soft">a <code>{_text(comparison.a.path)}</code> '
        f"({_text(comparison.a.writer or 'unknown')}, {comparison.a.ops} ops)<br>"
        f"b <code>{_text(comparison.b.path)}</code> "
        f"({_text(comparison.b.writer or 'unknown')}, {comparison.b.ops} ops)<br>"
        f"{compared} pairs compared{by.get(comparison.by, '')}; steps {steps}</p>"
    )


def _divergence(found: Divergence | None) -> str:
    if found is None:
        return ""
    pair, tensor = found.pair, found.tensor
    certain = "" if found.confidence == "high" else " (low confidence)"
    return (
        f'<div class="card"><b>First divergence{certain}</b>: step {pair.step}, {pair.phase}. '
        f"{_text(found.cause)}"
        f'<div class="sides">{_side("a", pair.a, tensor.a.parameter, pair.source_a)}'
        f"{_side('b', pair.b, tensor.b.parameter, pair.source_b)}</div>"
        f'<div class="numbers">{_numbers(tensor, pair)}</div></div>'
        '<h2>The way there</h2><div class="path" id="path"></div>'
    )


def _side(label: str, name: str, parameter: str | None, source: Source | None) -> str:
    code = "" if source is None else f"<pre>{_text(source.code.strip() or str(source))}</pre>"
    where = "" if source is None else f'<div class="soft">{_text(str(source))}</div>'
    tensor = "" if parameter in (None, name) else f"<div>tensor {_text(str(parameter))}</div>"
    return f'<div>{label} <span class="name">{_text(name)}</span>{tensor}{where}{code}</div>'


def _numbers(tensor: TensorPair, pair: OpPair) -> str:
    shown = [("relative L2", tensor.error), ("allowed", pair.allowed)]
    shown.append(("its inputs'", pair.input_error))
    found = tensor.distances
    if found is not None:
        shown += [
            ("max abs", found.max_abs_error),
            ("max rel", found.max_relative_error),
            ("mean rel", found.mean_relative_error),
            ("cosine", found.cosine),
        ]
        if not isnan(found.max_ulp):
            shown.append(("ULP", found.max_ulp))
    return "".join(
        f"<span>{title} <b>{f'{value:.6f}' if title == 'cosine' else _number(value)}</b></span>"
        for title, value in shown
    )


def _number(value: float) -> str:
    if value == 0 or not isfinite(value):
        return "0" if value == 0 else str(value)
    return f"{value:.3g}" if 1e-3 <= abs(value) < 1e4 else f"{value:.2e}"


def _reasons(comparison: Comparison) -> str:
    lines = [*comparison.reasons, *(f"note: {note}" for note in comparison.notes)]
    items = "".join(f"<li>{_text(line)}</li>" for line in lines)
    return f"<h2>From rough to fine</h2><ul>{items}</ul>" if items else ""


def _plot() -> str:
    legend = "".join(
        f'<span><span class="dot" style="background:var(--{name})"></span>{name}</span>'
        for name in ("diverged", "inherited", "rounding", "within", "equal")
    )
    return (
        '<h2>Error along the run</h2><div class="card"><div class="tools">'
        f'<select id="plot-step" aria-label="step"></select>{legend}'
        '<span class="soft">relative L2; the line is what each op may have</span></div>'
        '<canvas id="plot"></canvas></div>'
    )


def _losses(comparison: Comparison) -> str:
    known = [loss for loss in comparison.losses if loss.a is not None and loss.b is not None]
    rows = "".join(
        f'<tr><td>{loss.step}</td><td class="right">{loss.a:.8g}</td>'
        f'<td class="right">{loss.b:.8g}</td><td>{"agree" if loss.agrees else "differ"}</td></tr>'
        for loss in known[:_MANY]
    )
    head = '<tr><th>step</th><th class="right">a</th><th class="right">b</th><th></th></tr>'
    return (
        f'<h2>Losses</h2><div class="card wide"><table>{head}{rows}</table></div>' if rows else ""
    )


def _parts(comparison: Comparison) -> str:
    rows = "".join(
        f'<tr><td>{part.step}</td><td>{part.level}</td><td class="name">{_text(part.name)}</td>'
        f'<td class="right">{part.pairs}</td><td class="right">{_number(part.error)}</td>'
        f'<td><span class="dot" style="background:var(--{_dot(part.status)})"></span>'
        f"{part.status}</td></tr>"
        for part in comparison.parts[:_MANY]
    )
    if not rows:
        return ""
    head = (
        '<tr><th>step</th><th></th><th>name</th><th class="right">pairs</th>'
        '<th class="right">worst error</th><th>worst status</th></tr>'
    )
    count = len(comparison.parts)
    return (
        f"<h2>Subnets and layers</h2><details><summary>{count} in the forward pass</summary>"
        f'<div class="card wide"><table>{head}{rows}</table></div></details>'
    )


def _dot(status: str) -> str:
    return {"not dumped": "equal", "incomparable": "other"}.get(status, status)


def _table() -> str:
    options = "".join(f"<option>{status}</option>" for status in _STATUSES)
    return (
        '<h2>Pairs</h2><div class="tools"><input type="search" id="search" '
        'placeholder="name, kind or source line" aria-label="filter">'
        '<select id="status" aria-label="status"><option value="">every status</option>'
        f'<option value="computing">computing ops only</option>{options}</select>'
        '<select id="step" aria-label="steps"><option value="">every step</option></select>'
        '<span class="soft" id="count"></span></div>'
        '<div class="card wide"><table><thead><tr id="head"></tr></thead>'
        '<tbody id="body"></tbody></table></div>'
        '<button class="more" id="more" hidden>show more</button>'
    )


def _unpaired(comparison: Comparison) -> str:
    if not comparison.unpaired:
        return ""
    once = {(each.side, each.name): each for each in reversed(comparison.unpaired)}
    rows = "".join(
        f'<tr><td>{each.side}</td><td class="name">{_text(each.name)}</td>'
        f"<td>{_text(each.type)}</td><td>{_text(each.reason)}</td></tr>"
        for each in list(once.values())[:5000]
    )
    return (
        f"<h2>Unpaired</h2><details><summary>{len(once)} ops without a counterpart</summary>"
        f'<div class="card wide"><table>{rows}</table></div></details>'
    )


def _text(text: str) -> str:
    return html.escape(text)
