"""The health page in a browser: curves, the map of layers by steps, a cell, another run, logs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from playwright.sync_api import Browser, Page, expect
from tests.e2e.debugged import look, picture
from tests.server.serving_in_thread import Server, serving
from tests.trends.made_stores import MadeTraining, write_training
from torch.utils.tensorboard import SummaryWriter

from sonde.server.dumps.run import open_dumps

pytestmark = pytest.mark.flaky(reruns=2)
GRADIENT = "Gradients/Default/net/1-Linear/mm-op0"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Two runs of 60 steps; in the first a gradient explodes and turns NaN. And a log."""
    root = tmp_path_factory.mktemp("health")
    first = MadeTraining(layers=6, steps=60)
    for step in range(50, 60):
        first.arrays[step][GRADIENT][0, 0] = np.nan
    write_training(first, root / "first")
    write_training(MadeTraining(layers=6, steps=60, seed=1), root / "second")
    with SummaryWriter(str(root / "runs" / "a")) as writer:
        for step in range(30):
            writer.add_scalar("train/accuracy", step / 30, step)
            writer.add_histogram("weights", np.arange(9.0), step)
        writer.add_image("sample", torch.rand(3, 8, 8), 29)
    paths: list[Path] = [root / "second", root / "first"]
    with serving(sources=lambda broker: open_dumps(paths, broker), logs=(root / "runs",)) as found:
        yield found


@pytest.fixture
def page(served: Server, browser: Browser) -> Iterator[Page]:
    page = look(browser, f"{served.page}&run=first", dark=False)
    yield page
    page.context.close()


def test_a_cell_leads_to_its_layer_tensor_and_series(page: Page) -> None:
    area = page.locator(".map-frame")
    expect(page.get_by_role("region", name="Layers by steps")).to_contain_text("gradient norm")
    expect(page.get_by_role("region", name="Gradient norm")).to_contain_text(
        "not finite in 10 steps"
    )
    box = area.bounding_box()
    assert box is not None
    # Layer 1 of 6, step 55 of 60.
    area.click(position={"x": box["width"] * 55.5 / 60, "y": box["height"] * 1.5 / 6})
    panel = page.get_by_role("region", name="The chosen cell")
    expect(panel).to_contain_text("net/1-Linear · step 55")
    expect(panel.locator(".cell-tensors tbody tr").first).to_contain_text("nan")
    picture(page, "90-health-cell")
    panel.get_by_role("button", name="over steps").first.click()
    expect(page).to_have_url(re.compile("mode=curve"))
    expect(page.get_by_role("img", name="Statistics by step")).to_be_visible()


def test_two_runs_are_compared_cell_by_cell(page: Page) -> None:
    page.get_by_label("compared with").select_option(value="second")
    expect(page.locator(".map-legend")).to_contain_text("finite in one run only")
    area = page.locator(".map-frame")
    area.focus()
    area.press("ArrowRight")
    expect(page.locator(".map-live")).to_contain_text("other run")
    page.get_by_label("second", exact=False).first.check()
    expect(page.get_by_role("region", name="Gradient norm")).to_contain_text("second")
    picture(page, "91-health-compared")


def test_zooming_asks_for_the_cells_on_the_screen_and_no_others(page: Page) -> None:
    area = page.locator(".map-frame")
    area.focus()
    page.wait_for_load_state("networkidle")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    with page.expect_response(lambda answer: "/layers?" in answer.url) as zoomed:
        area.press("+")
    cells = zoomed.value.json()
    assert (cells["rows"], cells["columns"]) == (4, 30)  # Layers 1.5 to 4.5 of 6.
    assert not [url for url in asked if "/layers?" in url and "first=" not in url]
    expect(page.get_by_role("button", name="show all")).to_be_visible()


def test_event_files_are_loaded_when_they_are_scrolled_to(page: Page) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    logs = page.get_by_role("region", name="Event files")
    expect(logs).to_contain_text("runs/a")
    assert not [url for url in asked if "/picture" in url]
    logs.get_by_role("region", name="sample").scroll_into_view_if_needed()
    expect(logs.get_by_alt_text("sample in step 29")).to_be_visible()
    expect(logs.get_by_role("img", name="Distribution of weights over 30 steps")).to_be_visible()
    expect(logs.get_by_role("img", name="train/accuracy by step")).to_be_visible()
    picture(page, "92-health-logs")
