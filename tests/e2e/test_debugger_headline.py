"""The page answers first: the sentence at its top, in a real browser, is that of the terminal."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
from playwright.sync_api import Browser, Page, expect
from tests.e2e.debugged import RAINFALL, Process, in_state, look, picture
from tests.e2e.running import run
from tests.server.serving_in_thread import Server

from sonde.testing.fake_rank import RankSocket
from sonde.testing.sample_graph import sample_graph
from sonde.testing.sample_values import SAMPLE_TOKEN, sample_metadata
from sonde.wire.rank import PROTOCOL, Goodbye, GraphPart, Hello, Hits, Status, StepDone
from sonde.wire.shapes import (
    HeadlineText,
    Hit,
    HitRef,
    LossPoint,
    SourceLine,
    TensorType,
    TracebackFrame,
)

SCRIPTS = Path(__file__).parent / "scripts"
LOG = "Default/network-FlowNet/log-op0"
RAIN = (
    "log made 1 NaN of 256 values in step 7, forward, at rainfall.py:30 "
    "`wetness = torch.log(rain + 1.0)` (network-FlowNet/log-op0): 1 of its 256 inputs is "
    "negative (smallest -998), exactly where the NaN is."
)


def says(page: Page, sentence: str) -> None:
    """The headline is ``sentence``, with code as code, and the tab's title begins with it."""
    expect(page.locator(".headline-text")).to_have_text(sentence.replace("`", ""))
    title = page.locator(".headline-text b").inner_text()
    assert sentence.startswith(title)
    expect(page).to_have_title(re.compile("^" + re.escape(title)))


def test_a_hit_and_the_end_say_what_where_when_and_why(browser: Browser) -> None:
    words = ("debug", "--port", "0", "--debugger-port", "0", "--no-pause", "--recommended")
    with Process(*words, str(RAINFALL)) as training:
        page = look(browser, training.said(r"the page is at (\S+)").group(1))
        says(page, RAIN)
        told = training.said(r"sonde: paused: (.*) \(watchpoint").group(1)
        assert told == RAIN
        expect(page.get_by_role("tab", name=re.compile("^Hits"))).to_have_attribute(
            "aria-selected", "true"
        )
        cause = page.get_by_role("list", name="Causes").locator(".cause")
        expect(cause).to_have_count(1)
        expect(cause).to_contain_text("log made 1 NaN of 256 values")
        assert "run=" in page.url
        picture(page, "90-headline-hit")
        page.get_by_role("button", name="Values", exact=True).click()
        expect(page.get_by_role("tab", name="Tensor")).to_have_attribute("aria-selected", "true")
        page.get_by_role("button", name="Continue").click()
        in_state(page, "ended")
        whole = re.compile(r"^the loss is nan since step 7: log made 1 NaN .* has ended\.$")
        expect(page.locator(".headline-text")).to_have_text(whole)
        expect(cause.filter(has=page.locator(".badge-text.origin"))).to_have_count(1)


def test_an_overflow_dump_opens_at_its_producer(browser: Browser, tmp_path: Path) -> None:
    dump = tmp_path / "d"
    script = SCRIPTS / "exponential.py"
    ended = run("-m", "sonde", "run", "--overflow", "--dump-to", str(dump), str(script))
    sentence = ended.stderr.splitlines()[1].removeprefix("sonde: ")
    with Process("view", "--port", "0", "--no-browser", str(dump)) as view:
        page = look(browser, view.said(r"the page is at (\S+)").group(1))
        says(page, sentence)
        details = page.get_by_role("region", name="Op", exact=True)
        expect(details.get_by_role("heading", name="exp-op0")).to_be_visible()
        expect(page.locator(".cause").first).to_contain_text("exp made 9 Inf of 15 values")
        expect(page.locator("svg .box.origin, svg .box.has-origin").first).to_be_visible()
        expect(details.locator(".this-line")).to_be_in_viewport()
        count = page.locator(".cause-count").first
        expect(count).to_have_text("17 tensors: its own and 16 that got the values from there")
        picture(page, "91-headline-overflow")


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        (
            "log_of_zero.py",
            "log made 13 Inf of 15 values in step 0, forward, at log_of_zero.py:12 "
            "`entropy = odds * torch.log(odds)  # FIRST` (log-op0): 13 of its 15 inputs "
            "are 0, exactly where the Inf are. 5 other tensors got them from there.",
        ),
        (
            "division_by_zero.py",
            "div made 6 NaN of 24 values in step 1, forward, at division_by_zero.py:9 "
            "`return (x - x.mean(0)) / deviation  # FIRST` (div-op0): 0 is divided by 0 in "
            "6 places, exactly where the NaN are. 35 other tensors got them from there.",
        ),
        (
            "half_precision.py",
            "mul made 54 Inf of 64 values in step 1, forward, at half_precision.py:15 "
            "`return self.out(hidden * hidden)  # FIRST` (network-Net/mul-op0): its result "
            "is beyond 65504, the largest float16: its inputs reach 3072 and 3072 in magnitude. 49 "
            "other tensors got them from there.",
        ),
    ],
)
def test_the_headline_alone_tells_the_cause(
    browser: Browser, tmp_path: Path, script: str, sentence: str
) -> None:
    dump = tmp_path / "d"
    run("-m", "sonde", "run", "--overflow", "--dump-to", str(dump), str(SCRIPTS / script))
    with Process("view", "--port", "0", "--no-browser", str(dump)) as view:
        page = look(browser, view.said(r"the page is at (\S+)").group(1))
        says(page, sentence.replace("  ", " "))
        actions = page.locator(".headline-actions").get_by_role("button")
        texts = actions.all_inner_texts()
        assert texts == ["Values", "Inputs", "Op", "Ops of this line", "Hits", "Advice"]


def test_stored_signals_tell_a_broken_loss_of_which_no_op_is_known(
    browser: Browser, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    run("-m", "sonde", "run", "--guard", "--guard-to", str(kept), str(RAINFALL))
    with Process("view", "--port", "0", "--no-browser", str(kept)) as view:
        page = look(browser, view.said(r"the page is at (\S+)").group(1))
        says(page, "the loss is nan since step 7; these files do not tell which op made it.")
        expect(page.locator(".loss-hint .bad-text")).to_have_text("nan")


GRADIENTS = {
    "version": 1,
    "watchpoints": [{"name": "", "conditions": [{"id": "gradient_exploding"}]}],
}


def test_nan_in_gradients_are_told_and_where_their_op_was_not_observed_how_to_find_it(
    browser: Browser, tmp_path: Path
) -> None:
    points = tmp_path / "gradients.json"
    points.write_text(json.dumps(GRADIENTS))
    ports = ("--port", "0", "--debugger-port", "0", "--no-pause", "--no-diagnose")
    with Process("debug", *ports, "--watch", str(points), str(RAINFALL)) as training:
        page = look(browser, training.said(r"the page is at (\S+)").group(1))
        says(
            page,
            "the gradient of river.weight has 32 NaN of 32 values in step 7. The op that made them "
            "was not observed. 5 other gradients have NaN or Inf, too.",
        )
        told = training.said(r"sonde: paused: (.*) \(watchpoint").group(1)
        assert told.startswith("the gradient of river.weight has 32 NaN of 32 values in step 7.")
        details = page.get_by_role("region", name="Op", exact=True)
        expect(details.get_by_role("heading", name="river.weight.grad")).to_be_visible()
        actions = page.locator(".headline-actions").get_by_role("button")
        texts = ["Values", "Op", "Copy command to find the op", "Hits", "Advice"]
        assert actions.all_inner_texts() == texts
        command = f"sonde debug --no-pause --watch-for nan {RAINFALL}"
        copied = page.get_by_role("button", name="Copy command to find the op")
        assert (copied.get_attribute("title") or "").endswith(f": {command}")
        page.get_by_role("button", name="Values", exact=True).click()
        expect(page.locator(".cell.nan").first).to_have_text("nan")
        picture(page, "93-headline-gradients")


def test_nan_in_gradients_name_the_op_where_it_was_observed(
    browser: Browser, tmp_path: Path
) -> None:
    points = tmp_path / "gradients.json"
    points.write_text(json.dumps(GRADIENTS))
    ports = ("--port", "0", "--debugger-port", "0", "--no-pause", "--no-diagnose")
    script = str(SCRIPTS / "square_root_at_zero.py")
    with Process("debug", *ports, "--watch", str(points), script) as training:
        page = look(browser, training.said(r"the page is at (\S+)").group(1))
        says(
            page,
            "the gradient of sqrt has 5 Inf of 5 values in step 1, backward of sqrt, at "
            "square_root_at_zero.py:13 `distance = torch.sqrt((y - y.detach() * (step == 1))"
            ".square().sum(1))  # FIRST` (Backward/div-op1): all 5 inputs of sqrt are 0, where its "
            "derivative, 1 / (2 * sqrt(x)), is infinite, exactly where the Inf are. 2 other "
            "tensors got them from there.",
        )


FAILING = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(8, 16)
        self.head = nn.Linear(32, 4)

    def forward(self, x):
        return self.head(torch.relu(self.stem(x)))

network = Net()
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
network(torch.ones(20, 8)).mean().backward()
optimizer.step()
"""


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python keeps no columns")
def test_a_failed_training_names_the_op_the_module_and_the_shapes(
    browser: Browser, tmp_path: Path
) -> None:
    script = tmp_path / "failing.py"
    script.write_text(FAILING)
    ports = ("--port", "0", "--debugger-port", "0", "--no-pause", "--no-diagnose")
    with Process("debug", *ports, str(script)) as training:
        page = look(browser, training.said(r"the page is at (\S+)").group(1))
        says(
            page,
            "RuntimeError: mat1 and mat2 shapes cannot be multiplied (20x16 and 32x4), in step 0 "
            "at failing.py:12 `return self.head(torch.relu(self.stem(x)))`: linear in the module "
            "head (Linear) got input float32[20,16], self.weight float32[4,32], self.bias "
            "float32[4].",
        )
        in_state(page, "^failed$")
        picture(page, "94-headline-failed-op")


# ------------------------------------------------------------- ranks that say what they are told


NODES = sample_graph(2)
OP = NODES[4].name
TOLD = HeadlineText(
    "log made 1 Inf of 32 values",
    f"log made 1 Inf of 32 values in step 12, forward, at ddp.py:12 `log(x)` ({OP}).",
)


@pytest.fixture
def connected(server: Server) -> Iterator[Connections]:
    with ExitStack() as stack:
        yield Connections(server, stack)


class Connections:
    """Connects ranks to a server."""

    def __init__(self, server: Server, stack: ExitStack) -> None:
        self.server, self._stack = server, stack

    def rank(self, run: str, number: int = 0, world_size: int = 1) -> RankSocket:
        found = RankSocket("127.0.0.1", self.server.rank_port)
        self._stack.callback(found.close)
        metadata = msgspec.structs.replace(
            sample_metadata(), rank=number, world_size=world_size, script=f"/a/{run}.py"
        )
        found.send(Hello(PROTOCOL, SAMPLE_TOKEN, run, metadata, False))
        found.receive()
        found.send(GraphPart(0, "g", 0, NODES, len(NODES)))
        found.send(Status("running", 12, 0, None, None, None, "", 0))
        return found


def stop_at_hit(rank: RankSocket, number: int, step: int = 12) -> None:
    hit = Hit(
        *(0, 1, "tensor_overflow", number, step, 4, OP, "output", 0),
        *(TensorType("float32", (4, 8)), "hit", "", ()),
        part="producer",
        origin=OP,
        chain=(OP,),
        headline=TOLD,
    )
    rank.send(Hits((hit,)))
    stop = HitRef(1, "not finite", "tensor_overflow", step, OP, "output", 0, TOLD)
    rank.send(Status("paused", step, 0, OP, 4, "hit", TOLD.text, 0, stop))


def test_the_page_goes_to_the_rank_that_stopped(browser: Browser, connected: Connections) -> None:
    first, second = (connected.rank("ddp", each, 2) for each in (0, 1))
    del first
    page = look(browser, connected.server.page)
    in_state(page, "^running$")
    stop_at_hit(second, 1)
    says(page, f"rank 1: {TOLD.text}")
    in_state(page, "^paused at a hit$")
    expect(page.locator(".cause")).to_contain_text("rank 1, step 12")
    assert "rank=1" in page.url
    page.get_by_role("tab", name="0", exact=True).click()
    in_state(page, "rank 1.*paused at a hit")
    says(page, f"rank 1: {TOLD.text}")
    expect(page.locator(".cause")).to_contain_text("rank 1, step 12")
    page.get_by_role("button", name="Go to rank 1").click()
    in_state(page, "^paused at a hit$")


def test_another_training_never_takes_the_place_of_the_one_on_the_screen(
    browser: Browser, connected: Connections
) -> None:
    connected.rank("gan")
    page = look(browser, connected.server.page)
    expect(page.get_by_label("Run", exact=True)).to_have_value("gan")
    page.wait_for_url(re.compile("run=gan"))
    page.get_by_role("tab", name="Loss").click()
    connected.rank("crash")
    toast = page.locator(".toast").filter(has_text="crash.py --lr 0.1 connected")
    expect(toast).to_be_visible()
    expect(page.get_by_label("Run", exact=True)).to_have_value("gan")
    toast.get_by_role("button", name="show").click()
    expect(page.get_by_label("Run", exact=True)).to_have_value("crash")
    page.wait_for_url(re.compile("run=crash"))


def test_a_broken_loss_a_failure_and_a_lost_process_are_told(
    browser: Browser, connected: Connections
) -> None:
    rank = connected.rank("train")
    page = look(browser, connected.server.page)
    for step, loss in enumerate((0.5, "nan", "nan")):
        rank.send(StepDone(LossPoint(step, loss, 0.1, None, True), 0))
    rank.send(Status("paused", 3, 0, None, None, "pause", "", 0))
    says(page, "the loss is nan since step 1; no watchpoint looked for the op that made it.")
    own = SourceLine("/a/train.py", 11, "<module>", "loss = net(batch)")
    library = SourceLine("/lib/site-packages/torch/nn/linear.py", 134, "forward", "F.linear()")
    frames = (TracebackFrame(own, True), TracebackFrame(library, False))
    rank.send(Goodbye(1, "RuntimeError: shapes differ", frames=frames))
    says(page, "RuntimeError: shapes differ, in step 3 at train.py:11 `loss = net(batch)`.")
    in_state(page, "^failed$")
    page.get_by_role("button", name="Traceback").click()
    traceback = page.get_by_role("list", name="Traceback of rank 0")
    expect(traceback.get_by_role("listitem")).to_have_count(3)
    expect(traceback.get_by_role("button", name="ops of this line")).to_have_count(1)
    picture(page, "92-headline-crash")


def test_a_hit_before_the_first_step_is_told(browser: Browser, connected: Connections) -> None:
    rank = connected.rank("zero")
    page = look(browser, connected.server.page)
    page.get_by_role("tab", name="Watchpoints").click()
    told = HeadlineText(
        "fc.weight: weights start as zeros",
        "fc.weight: weights start as zeros in step 0: zero percentage is 100, at least 100 "
        "(initial weight value).",
    )
    stop = HitRef(1, "zeros", "weight_initialization", 0, "fc.weight", "output", 0, told)
    rank.send(Status("paused", 0, None, None, None, "hit", told.text, 0, stop))
    says(page, told.text)
    expect(page.get_by_role("tab", name=re.compile("^Hits"))).to_have_attribute(
        "aria-selected", "true"
    )
