"""A long list of hits in a real browser: rows of different heights, scrolling, positions."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Browser, Page, expect
from tests.e2e.debugged import look, picture
from tests.server.rank_conversation import RankConversation
from tests.server.serving_in_thread import Server

from sonde.testing.fake_rank import FakeRank
from sonde.testing.sample_graph import sample_graph
from sonde.wire.rank import GraphPart, Hits, Status
from sonde.wire.shapes import ParameterValue

pytestmark = pytest.mark.flaky(reruns=2)
COUNT = 1000
LONG = tuple(ParameterValue(f"a_rather_long_parameter_{at}", 0.125, 0.5) for at in range(4))


@pytest.fixture
def page(browser: Browser, server: Server) -> Iterator[Page]:
    """A page at a training that is paused after a thousand hits; every third has four values."""
    nodes = sample_graph(2)
    fake = FakeRank(server.rank_port, run="other", nodes=nodes)
    op = nodes[4]
    with RankConversation(server) as rank:
        rank.send(GraphPart(0, "g", 0, nodes, len(nodes)))
        for step in range(COUNT):
            hit = fake._hit(1, op, op)
            chain = tuple(node.name for node in nodes[:6])
            values = LONG if step % 3 == 0 else hit.values
            changed = msgspec.structs.replace(hit, step=step, values=values, chain=chain)
            rank.send(Hits((changed,)))
        rank.send(Status("paused", COUNT, None, None, None, "pause", "", 0))
        server.wait_for("/runs/mine", lambda run: run["ranks"][0]["hits"] == COUNT)
        found = look(browser, server.page)
        found.get_by_role("button", name="by cause").click()
        expect(found.locator(".hits [role=status]")).to_have_text(f"{COUNT:,} results")
        yield found


def _rows(page: Page) -> list[dict[str, Any]]:
    """The rows in the document from top to bottom, once they fill the list, are loaded and meet.

    The list draws other rows some time after it was scrolled; until then the old ones are outside
    of what is visible. The rows are read in the same moment in which they are found complete.
    """
    found = page.wait_for_function(
        """() => {
          const list = document.querySelector(".hits .rows");
          const around = list.getBoundingClientRect();
          const rows = [...list.querySelectorAll(".row-place")].map((row) => {
            const { top, bottom } = row.getBoundingClientRect();
            const text = row.querySelector(".hit-step")?.textContent ?? "";
            const step = Number(/step (\\d+)/.exec(text)?.[1] ?? NaN);
            return { step, top: top - around.top, bottom: bottom - around.top };
          }).sort((a, b) => a.top - b.top);
          const isLoaded = rows.length > 0 && rows.every(({ step }) => !Number.isNaN(step));
          const meet = rows.every(({ top }, at) => !at || Math.abs(rows[at - 1].bottom - top) < 1);
          const isFull = isLoaded && rows[0].top < 1 && rows.at(-1).bottom > around.height - 1;
          return isFull && meet && rows;
        }"""
    )
    return found.json_value()  # type: ignore[no-any-return]


def _first_visible(page: Page) -> int:
    return next(row["step"] for row in _rows(page) if row["bottom"] > 1)


def _scroll_to(page: Page, share: float) -> None:
    rows = page.locator(".hits .rows")
    rows.evaluate(f"list => list.scrollTo(0, list.scrollHeight * {share})")
    _rows(page)


def test_rows_of_all_heights_follow_each_other_without_gaps_and_only_a_few_exist(
    page: Page,
) -> None:
    for share in (0, 0.5, 0.9):
        _scroll_to(page, share)
        rows = _rows(page)
        assert len(rows) < 60
        assert [row["step"] for row in rows] == list(range(rows[0]["step"], rows[-1]["step"] + 1))
        heights = {round(row["bottom"] - row["top"]) for row in rows}
        assert len(heights) >= 2
    picture(page, "hits_long")


def test_nothing_of_a_hit_with_many_values_is_cut_off(page: Page) -> None:
    _scroll_to(page, 0.5)
    cut = page.evaluate(
        """() => [...document.querySelectorAll(".hits .hit, .hits .hit-body")]
          .filter((box) => box.scrollHeight > box.clientHeight + 1).length"""
    )
    assert cut == 0


def test_the_list_is_at_the_same_hit_after_a_reload(page: Page) -> None:
    _scroll_to(page, 0.6)
    before = _first_visible(page)
    assert before > 400
    page.reload()
    page.wait_for_function("() => document.querySelectorAll('.hits .hit-step').length > 3")
    page.wait_for_function("() => document.querySelector('.hits .rows').scrollTop > 1000")
    _rows(page)
    assert abs(_first_visible(page) - before) <= 1


def test_an_unfolded_hit_is_visible_from_its_top_and_moves_the_ones_below(page: Page) -> None:
    _scroll_to(page, 0.5)
    chosen = _first_visible(page) + 1
    row = page.locator(".hits .row-place").filter(
        has=page.get_by_text(f"step {chosen}", exact=True)
    )
    row.get_by_role("button", name="chain of 6 ops").click()
    expect(row.locator(".chain")).to_be_visible()
    _rows(page)
    inside, around = row.bounding_box(), page.locator(".hits .rows").bounding_box()
    assert inside is not None
    assert around is not None
    room = max(around["height"] - inside["height"], 0)
    assert around["y"] - 1 <= inside["y"] <= around["y"] + room + 1
    picture(page, "hits_unfolded")
