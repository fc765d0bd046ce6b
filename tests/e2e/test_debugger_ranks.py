"""All ranks of a run in one view: 2, 8 and 64 simulated ranks in a real browser."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect
from tests.e2e.debugged import chromium, look, picture, read
from tests.server.serving_in_thread import serving

from sonde.testing.fake_rank import FakeRank
from sonde.testing.sample_graph import sample_graph
from sonde.testing.sample_reports import odd_rank

# A browser on a busy machine is late now and then; a second try is reported as one.
pytestmark = pytest.mark.flaky(reruns=2)


@pytest.mark.parametrize("count", [2, 8, 64])
def test_ranks_are_shown_as_one(count: int) -> None:
    nodes = sample_graph(1)
    odd = odd_rank(count)
    with serving() as server, chromium() as browser:
        ranks = [
            FakeRank(
                server.rank_port,
                run="job",
                rank=rank,
                world_size=count,
                nodes=nodes,
                is_compared=True,
            ).start()
            for rank in range(count)
        ]
        server.wait_for("/runs/job", lambda run: len(run["ranks"]) == count)
        server.control("job", "step", steps=12)
        server.wait_for("/runs/job", lambda run: all(each["step"] == 12 for each in run["ranks"]))
        op = next(node.name for node in nodes if node.type == "Parameter")
        page = look(browser, f"{server.page}&run=job&tab=ranks&op={op}")
        verdict = page.get_by_label("Comparison of the ranks")
        expect(verdict).to_contain_text("they part in step 2")
        checks = page.get_by_role("table", name="Checks of the ranks")
        expect(checks).to_contain_text("replicas differ")
        expect(checks).to_contain_text("another head.bias than")
        cells = page.get_by_role("group", name="replicas-differ by rank").get_by_role("button")
        expect(cells).to_have_count(count)
        expect(cells.nth(odd)).to_have_class("rank-cell bad")
        expect(cells.nth(0 if odd else 1)).to_have_class("rank-cell fine")
        tensor = page.get_by_role("table", name="Tensor on all ranks")
        expect(tensor.get_by_role("row")).to_have_count(count + 1)
        expect(page.get_by_role("img", name="All ranks together")).to_be_visible()
        page.get_by_label("How ranks are merged").select_option("mean")
        expect(page.get_by_text("the mean over ranks")).to_be_visible()
        state = page.get_by_role("status", name="State of the training")
        first = page.get_by_role("button", name="Continue").bounding_box()
        assert first is not None
        for part in (state, state.locator(".pill"), state.locator(".where")):
            box = part.bounding_box()
            assert box is not None
            assert box["x"] + box["width"] <= first["x"]
        read(page)
        picture(page, f"80-ranks-{count}")
        page.get_by_role("group", name="Ranks", exact=True).get_by_role("button").nth(1).click()
        expect(page).to_have_url(re.compile(r"[?&#]rank=1\b"))
        for rank in ranks:
            rank.close()
            rank.join()
