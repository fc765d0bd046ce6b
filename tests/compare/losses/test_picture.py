"""The picture of two loss curves: drawn for any curve, without pyplot, or refused by name."""

import math
import subprocess
import sys
from io import BytesIO

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from sonde.compare.losses.compare import LossSeries, compare_losses
from sonde.compare.losses.picture import HEIGHT, WIDTH, to_png
from sonde.core.errors import UsageError

NAN, INF = math.nan, math.inf
BLUE, RED = (0x1F, 0x77, 0xB4), (0xC8, 0x10, 0x2E)


def drawn(a: list[float], b: list[float], origin: str = "x") -> NDArray[np.uint8]:
    curves = [LossSeries(origin, tuple(range(len(each))), tuple(each)) for each in (a, b)]
    png = to_png(compare_losses(*curves), "the title")
    with Image.open(BytesIO(png)) as image:
        assert image.size == (WIDTH, HEIGHT)
        return np.asarray(image.convert("RGB"))


def columns_of(pixels: NDArray[np.uint8], color: tuple[int, int, int]) -> NDArray[np.int64]:
    """The columns below the legend in which the color occurs."""
    return np.flatnonzero((pixels[160:] == color).all(axis=2).any(axis=0))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([1.0], [1.0]),
        ([NAN, NAN], [NAN, NAN]),
        ([1.0, INF, 2.0, NAN, 3.0], [1.0, 1.0, INF, NAN, 3.1]),
        ([0.0, 0.0], [0.0, 0.0]),
        ([1e-300, 1e300], [1e300, 1e-300]),
        ([1.0 / (k + 1) for k in range(10_000)], [1.1 / (k + 1) for k in range(10_000)]),
    ],
    ids=["one point", "only NaN", "gaps", "zeros", "huge", "long"],
)
def test_any_curve_can_be_drawn(a: list[float], b: list[float]) -> None:
    pixels = drawn(a, b)
    assert (pixels[:10] == 255).all(), "the margin is white"
    assert (pixels < 128).any(), "something is drawn"


def test_a_gap_stays_empty_and_a_point_between_gaps_is_a_dot() -> None:
    whole = drawn([1.0] * 9, [2.0] * 9)
    with_gaps = drawn([1.0, 1.0, 1.0, NAN, 1.0, NAN, 1.0, 1.0, 1.0], [2.0] * 9)
    solid, broken = columns_of(whole, BLUE), columns_of(with_gaps, BLUE)
    assert 0.45 * len(solid) < len(broken) < 0.65 * len(solid)
    middle = (solid[0] + solid[-1]) / 2
    assert (abs(broken - middle) < 12).any(), "the point at step 4"


def test_the_first_step_out_of_tolerance_is_marked() -> None:
    assert not len(columns_of(drawn([1.0] * 5, [1.0] * 5)[:700], RED))
    marked = columns_of(drawn([1.0] * 5, [1.0, 1.0, 1.0, 2.0, 2.0])[:700], RED)
    assert marked.size
    assert marked.max() - marked.min() < 6, "one vertical line"


@pytest.mark.parametrize("origin", ["a$x^$b", "runs/" + "long" * 60, "训练/loss", "_hidden"])
def test_any_path_can_be_in_the_legend(origin: str) -> None:
    drawn([1.0, 2.0], [1.0, 2.0], origin)


def test_pyplot_and_the_users_style_are_left_alone() -> None:
    program = (
        "import sys, matplotlib; matplotlib.rcParams['axes.grid'] = True\n"
        "from sonde.compare.losses.compare import LossSeries, compare_losses\n"
        "from sonde.compare.losses.picture import to_png\n"
        "assert 'matplotlib.figure' not in sys.modules\n"
        "one = LossSeries('x', (0, 1), (1.0, 2.0)); to_png(compare_losses(one, one), 't')\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
        "assert matplotlib.rcParams['axes.grid'] is True\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_without_matplotlib_the_command_to_install_it_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UsageError, match=r"pip install 'sonde\[png\]'.*\[extra-missing\]"):
        drawn([1.0], [1.0])
