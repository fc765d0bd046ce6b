"""Trainings of two optimizers, and how trainings end, in a real browser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from tests.e2e.debugged import Process, in_state, look, picture

# A browser on a busy machine is late now and then; a second try is reported as one.
pytestmark = pytest.mark.flaky(reruns=2)

SCRIPT = """
import torch
from torch import nn

class Maker(nn.Module):
    def __init__(self):
        super().__init__()
        self.made = nn.Linear(4, 4)

    def forward(self, x):
        return torch.tanh(self.made(x))

class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.judged = nn.Linear(4, 1)

    def forward(self, x):
        return self.judged(x)

torch.manual_seed(0)
maker, critic = Maker(), Critic()
ours = torch.optim.Adam(maker.parameters(), lr=0.01)
theirs = torch.optim.SGD(critic.parameters(), lr=0.01)
for step in range(1000):
    for _ in range(3):
        theirs.zero_grad()
        loss = critic(maker(torch.randn(8, 4)).detach()).mean() - critic(torch.randn(8, 4)).mean() + 0.001 * sum((weight ** 2).sum() for weight in critic.parameters())
        loss.backward()
        theirs.step()
    ours.zero_grad()
    (10 - critic(maker(torch.randn(8, 4))).mean()).backward()
    ours.step()
"""  # noqa: E501 (a long line to show)


@pytest.mark.document(254)
def test_each_optimizer_has_its_curve_and_its_graph(tmp_path: Path, browser: Browser) -> None:
    script = tmp_path / "two.py"
    script.write_text(SCRIPT)
    words = ("debug", "--no-open", "--port", "0", "--debugger-port", "0", "--watch-for", "nothing")
    with Process(*words, str(script)) as run:
        page = look(browser, run.said(r"the page is at (\S+)").group(1))
        in_state(page, "paused before")
        page.get_by_label("Steps to run").fill("40")
        page.get_by_label("Steps to run").press("Enter")
        in_state(page, "paused after")
        # The last step was the maker's, whose graph was learned although it came late.
        expect(page.locator(".where")).to_have_text("step 40 · usual step")
        chosen = page.get_by_label("Graph of the list").locator("option:checked")
        expect(chosen).to_contain_text("Adam of maker")
        page.get_by_role("tab", name="Loss").click()
        legend = page.locator(".u-legend").first
        expect(legend).to_contain_text("SGD of critic")
        expect(legend).to_contain_text("Adam of maker")
        expect(page.locator(".sparkline path")).to_have_count(2)
        picture(page, "optimizers-loss")

        page.get_by_label("Search ops").fill("pow-op0")
        page.get_by_label("Graph of the list").select_option("1")
        page.get_by_role("listbox", name="Matching ops").get_by_role("option").first.click()
        code = page.locator(".code")
        expect(code.locator(".this-line")).to_contain_text("for weight in critic.parameters()")
        assert code.evaluate("(code) => code.scrollWidth <= code.clientWidth")
        picture(page, "optimizers-code")


def test_a_training_that_fails_is_distinguished_from_one_that_ends(
    tmp_path: Path, browser: Browser
) -> None:
    script = tmp_path / "fails.py"
    script.write_text("import torch\ntorch.ones(2) @ torch.ones(3)\n")
    words = ("debug", "--no-open", "--no-pause", "--port", "0", "--debugger-port", "0")
    with Process(*words, str(script)) as run:
        page = look(browser, run.said(r"the page is at (\S+)").group(1))
        in_state(page, "^failed$")
        told = re.compile(r"^RuntimeError: .* at fails\.py:2 torch\.ones\(2\) @ torch\.ones\(3\)\.")
        expect(page.get_by_role("alert")).to_have_text(told)
        picture(page, "failed")
    script.write_text("import torch\ntorch.ones(2) @ torch.ones(2)\n")
    with Process(*words, str(script)) as run:
        page = look(browser, run.said(r"the page is at (\S+)").group(1))
        in_state(page, "^ended$")
        expect(page.locator(".banner")).to_have_text("The training ended with exit code 0")
        expect(page.get_by_role("alert")).to_have_count(0)
