import io
import json
import re
from pathlib import Path

import pytest
from tests.profile.made import event, graph, node, op_item, profile, trace

from sonde.core.text.number_text import binary_size, duration, percent
from sonde.profile.analyse.difference import compare_profiles
from sonde.profile.analyse.timings import time_steps
from sonde.profile.report.chrome import write_trace
from sonde.profile.report.terminal import show_difference, show_profile


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.00 µs"), (1.5e-6, "1.50 µs"), (999.96e-6, "1.00 ms"), (0.0314, "31.4 ms"),
     (0.99999, "1.00 s"), (61, "61.0 s"), (-0.002, "-2.00 ms"), (123.4, "123 s")],
)  # fmt: skip
def test_times_have_three_digits_and_a_unit(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_sizes_and_shares_are_short() -> None:
    assert [binary_size(n) for n in (0, 1023, 1024, 1536, 5 << 30, -(1 << 20))] == [
        "0.00 B", "1023 B", "1.00 KiB", "1.50 KiB", "5.00 GiB", "-1.00 MiB",
    ]  # fmt: skip
    assert [percent(x) for x in (0, 0.001, 0.0994, 0.5, 1)] == [
        "0.0 %", "0.1 %", "9.9 %", "50 %", "100 %",
    ]  # fmt: skip


def test_the_first_screen_has_the_parts_and_the_three_best_findings() -> None:
    out = io.StringIO()
    show_profile(profile(0.1, findings=5), ["report: here"], out)
    text = out.getvalue()
    assert "train.py --epochs 1: a step takes 100 ms" in text
    assert re.search(r"backward\s+60.0 ms\s+60 %\s+█{18}", text)
    assert "3. needless-cast  /home/me/train.py:3  10.0 ms a step, 10 % (in the trace)" in text
    assert "4. needless-cast" not in text
    assert "and 2 more in the report" in text
    assert text.rstrip().endswith("report: here")


def test_without_findings_the_first_screen_says_so() -> None:
    out = io.StringIO()
    show_profile(profile(), [], out)
    assert "no finding: nothing measured would make a step 5 % shorter" in out.getvalue()


def test_a_difference_says_what_is_noise() -> None:
    out = io.StringIO()
    before = profile(0.1, findings=1, ops=[op_item("mm", 0.05)])
    show_difference(compare_profiles(before, profile(0.101, ops=[op_item("mm", 0.01)])), out)
    text = out.getvalue()
    assert re.search(r"step\s+100 ms\s+101 ms\s+1.01 x\s+within noise", text)
    assert re.search(r"mm \(forward\)\s+50.0 ms\s+10.0 ms\s+0.20 x\s+-40.0 ms", text)
    assert "no longer found: needless-cast" in text


def test_the_trace_has_every_op_with_module_and_line(tmp_path: Path) -> None:
    step = trace([event("aten::mm", 100, 200)], memory=[(150, 64)], backwards=[(300, 400)])
    made = time_steps([step], graph([node("mm", "mm0", scope="Default/network-Net")]))
    write_trace(made, 0, tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    slices = {each["name"]: each for each in events if each["ph"] == "X"}
    assert slices["aten::mm"]["dur"] == 0.1
    assert slices["aten::mm"]["args"]["module"] == "Default/network-Net"
    assert slices["step 6"]["dur"] == 1.0
    assert {"forward", "backward", "rest"} <= slices.keys()
    assert [each["args"] for each in events if each["ph"] == "C"] == [
        {"bytes above the step's beginning": 64}
    ]
