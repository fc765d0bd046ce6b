"""Tensors as HTML: what the pictures show, decoded by other programs."""

from __future__ import annotations

import io
import re
from base64 import b64decode
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from sonde.core.finding import Finding
from sonde.core.graph import Source
from sonde.display.heat_map import MARK_COLOURS, heat_map
from sonde.tensor_display import shown_tensor


def pixels(html: str) -> NDArray[np.uint8]:
    found = re.search(r"data:image/png;base64,([^\"]+)", html)
    assert found is not None
    return np.asarray(Image.open(io.BytesIO(b64decode(found[1]))))


class Balanced(HTMLParser):
    """Fails for a tag that is not closed, and for a script."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        assert tag != "script"
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag not in ("img",):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def texts_of(html: str) -> str:
    parser = Balanced()
    parser.feed(html)
    parser.close()
    assert parser.open == []
    return " ".join(parser.texts)


def test_a_small_plane_has_a_pixel_for_each_value() -> None:
    plane = np.array([[-2.0, 0.0, 1.0], [np.nan, np.inf, -np.inf]])
    seen = pixels(heat_map(plane))
    assert seen.shape == (2, 3, 3)
    assert tuple(seen[1, 0]) == MARK_COLOURS["nan"][1]
    assert tuple(seen[1, 1]) == MARK_COLOURS["+inf"][1]
    assert tuple(seen[1, 2]) == MARK_COLOURS["-inf"][1]
    red, _, blue = map(int, seen[0, 0])
    assert blue > red, "below zero is blue"
    red, _, blue = map(int, seen[0, 2])
    assert red > blue, "above zero is orange"


def test_one_nan_in_a_large_plane_is_not_averaged_away() -> None:
    plane = np.zeros((1000, 2000), np.float32)
    plane[777, 1234] = np.nan
    seen = pixels(heat_map(plane))
    marked = np.argwhere((seen == MARK_COLOURS["nan"][1]).all(axis=-1))
    assert len(marked) == 1
    rows, columns, _ = seen.shape
    assert tuple(marked[0]) == (777 * rows // 1000, 1234 * columns // 2000)


@pytest.mark.parametrize(
    "values",
    [
        np.zeros((0, 3)),
        np.float32(2.5),
        np.full((3, 3), np.nan),
        np.array([np.inf, -np.inf]),
        np.array([-1.7e308, 1.7e308]),
        np.array([5e-324, 0.0]),
        np.array([True, False]),
        np.arange(7, dtype=np.uint8),
        np.array([1 + 2j]),
        np.ones((2, 3, 4, 5), np.float16)[..., ::2],
        np.ma.masked_array([1.0, np.nan], mask=[False, True]),
        np.full(5, 3.0),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("error")
def test_every_kind_of_array_can_be_shown(values: Any) -> None:
    html = shown_tensor(values)._repr_html_()
    assert str(values.dtype) in texts_of(html)


def test_the_histogram_is_numpys() -> None:
    values = np.random.default_rng(0).normal(size=5000)
    bars = re.findall(r"v-([\d.]+)h", shown_tensor(values)._repr_html_())
    counts = np.histogram(values, 40)[0]
    expected = [max(1.0, round(float(each), 1)) for each in counts[counts > 0] / max(counts) * 70]
    assert [float(each) for each in bars] == expected


def test_a_shown_tensor_keeps_the_values_it_had() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.zeros(2, 2)
    before = shown_tensor(tensor)
    html = before._repr_html_()
    tensor.fill_(float("nan"))
    assert before._repr_html_() == html


def test_names_of_programs_are_escaped() -> None:
    evil = '<img src=x onerror="alert(1)">'
    found = Finding(
        evil,
        "error",
        evil,
        status="established",
        source=Source(evil, 1, evil, evil),
        evidence={evil: evil},
        advice=evil,
        op=evil,
    )
    assert evil in texts_of(found._repr_html_())
    assert evil in texts_of(shown_tensor(np.ones(3), evil)._repr_html_())
