"""The drawing of a comparison as SVG, as a page of its own, and as PNG."""

from __future__ import annotations

import io
from collections.abc import Sequence
from html import escape
from itertools import pairwise

from sonde.compare.loss_advice import headline, reasoning
from sonde.compare.loss_picture import Drawing, Line, draw
from sonde.compare.losses import LossComparison
from sonde.core.errors import UsageError

_SCALE = 2
_TABLE_ROWS = 500
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 980px; color: #222;
  background: #fff; padding: 0 1em }
h1 { font-size: 1.3em } h2 { font-size: 1.1em } .out { color: #c8102e } .dim { color: #666 }
svg { width: 100%; height: auto; border: 1px solid #ddd; border-radius: 6px }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
td, th { padding: 2px 14px 2px 0; text-align: right } tr.out td { color: #c8102e }
"""


def to_svg(drawing: Drawing) -> str:
    """The drawing as an SVG element."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {drawing.width} {drawing.height}" '
        'font-family="system-ui, sans-serif" role="img">',
        f'<rect width="{drawing.width}" height="{drawing.height}" fill="#fff"/>',
    ]
    for shape in drawing.shapes:
        if isinstance(shape, Line):
            points = " ".join(f"{x:.2f},{y:.2f}" for x, y in shape.points)
            dashes = ' stroke-dasharray="6 4"' if shape.dashed else ""
            parts.append(
                f'<polyline points="{points}" fill="none" stroke="{shape.color}" '
                f'stroke-width="{shape.width}" stroke-linecap="round"{dashes}/>'
            )
        else:
            parts.append(
                f'<text x="{shape.x:.1f}" y="{shape.y:.1f}" font-size="{shape.size}" '
                f'fill="{shape.color}" text-anchor="{shape.anchor}">{escape(shape.text)}</text>'
            )
    return "\n".join([*parts, "</svg>"])


def to_html(found: LossComparison) -> str:
    """One self-contained page: the result, what it means, the picture and the numbers."""
    head = headline(found)
    css = "out" if found.first_out is not None else ""
    lines = "".join(f"<p>{escape(line)}</p>" for line in reasoning(found))
    notes = "".join(f'<p class="dim">{escape(note)}</p>' for note in found.notes)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>Two loss curves</title>'
        f"<style>{_STYLE}</style></head><body><h1>Two loss curves</h1>"
        f"<p>a: <code>{escape(found.a.origin)}</code><br>"
        f"b: <code>{escape(found.b.origin)}</code></p>"
        f'<p class="{css}"><b>{escape(head)}</b></p>{lines}{notes}'
        f"{to_svg(draw(found, 'loss of a and b'))}{_table(found)}</body></html>\n"
    )


def _table(found: LossComparison) -> str:
    """The steps with the largest errors where there are too many for all."""
    places: Sequence[int] = range(len(found.steps))
    title = "All steps"
    if len(found.steps) > _TABLE_ROWS:
        worst = found.errors.argsort()[::-1][:_TABLE_ROWS]
        places = sorted(int(place) for place in worst)
        title = f"The {_TABLE_ROWS} steps with the largest errors"
    rows = "".join(
        f'<tr class="{"out" if found.out[k] else ""}"><td>{found.steps[k]}</td>'
        f"<td>{found.values_a[k]:.9g}</td><td>{found.values_b[k]:.9g}</td>"
        f"<td>{found.errors[k]:.3g}</td></tr>"
        for k in places
    )
    return (
        f"<h2>{title}</h2><table><tr><th>step</th><th>a</th><th>b</th><th>relative error</th></tr>"
        f"{rows}</table>"
    )


def to_png(drawing: Drawing) -> bytes:
    """The drawing as a PNG, twice its size; needs pillow."""
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError:
        raise UsageError(
            "--png needs pillow: pip install pillow (--html does without)", slug="extra-missing"
        ) from None
    image = Image.new("RGB", (drawing.width * _SCALE, drawing.height * _SCALE), "#ffffff")
    canvas = ImageDraw.Draw(image)
    for shape in drawing.shapes:
        if isinstance(shape, Line):
            points = [(x * _SCALE, y * _SCALE) for x, y in shape.points]
            width = max(1, round(shape.width * _SCALE))
            for piece in _dashes(points) if shape.dashed else [points]:
                canvas.line(piece, fill=shape.color, width=width, joint="curve")
        else:
            font = ImageFont.load_default(shape.size * _SCALE)
            anchor = {"start": "ls", "middle": "ms", "end": "rs"}[shape.anchor]
            place = (shape.x * _SCALE, shape.y * _SCALE)
            canvas.text(place, shape.text, fill=shape.color, font=font, anchor=anchor)
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()


def _dashes(points: list[tuple[float, float]]) -> list[list[tuple[float, float]]]:
    """The line cut into dashes of 12 and gaps of 8."""
    pieces: list[list[tuple[float, float]]] = [[points[0]]]
    left, is_dash = 12.0, True
    for start, stop in pairwise(points):
        x, y = start
        length = ((stop[0] - x) ** 2 + (stop[1] - y) ** 2) ** 0.5
        done = 0.0
        while length - done > left:
            done += left
            share = done / length
            place = (x + share * (stop[0] - x), y + share * (stop[1] - y))
            if is_dash:
                pieces[-1].append(place)
            else:
                pieces.append([place])
            is_dash, left = not is_dash, 8.0 if is_dash else 12.0
        left -= length - done
        if is_dash:
            pieces[-1].append(stop)
    return [piece for piece in pieces if len(piece) > 1]
