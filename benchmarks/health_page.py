"""The map of layers by steps of a long run: how long a pan or zoom takes, and what it loads.

    python benchmarks/health_page.py --layers 2000 --steps 10000

A made-up store of gradient norms is opened as `sonde view` opens it. First the server alone: its
processor time for each part of the map. Then a real Chromium: after each key the time until the
picture on the screen has moved, the time and size of the answer with the new cells, and the
processor time of the page's main thread, which other programs disturb less.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import uvicorn

from sonde.core.graph import OpNode
from sonde.dump import layout
from sonde.dump.statistic_store import engine
from sonde.dump.statistic_store.files import store_file, write_file
from sonde.dump.statistic_store.op_table import OpTable
from sonde.server.app import build_app
from sonde.server.dumps.run import DumpRun
from sonde.server.health.source import layer_cells
from sonde.server.http.endpoint import Context
from sonde.server.http.events import EventBroker
from sonde.server.run import Runs
from sonde.wire.queries import LayersQuery

BLOCK = 1000
KEYS = ("+", "+", "Shift+ArrowRight", "Shift+ArrowDown", "+", "Shift+ArrowLeft", "-", "+", "-", "-")
_MOVED = """key => new Promise(done => {
  const frame = document.querySelector(".map-frame"), canvas = frame.querySelector("canvas");
  const before = canvas.toDataURL(), start = performance.now();
  const [shift, name] = key.startsWith("Shift+") ? [true, key.slice(6)] : [false, key];
  frame.dispatchEvent(new KeyboardEvent("keydown", {key: name, shiftKey: shift, bubbles: true}));
  const look = () => {
    const spent = performance.now() - start;
    if (canvas.toDataURL() !== before || spent > 5000) done(spent);
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
})"""
_LOADED = """() => performance.getEntriesByType("resource").filter(e => e.name.includes("/layers?"))
  .map(e => ({ms: e.duration, bytes: e.transferSize}))"""


class LayerOutput:
    """What the op table reads of a tensor."""

    io, slot, shape, dtype, nbytes = "output", 0, (64, 64), "float32", 16384


def make_store(directory: Path, layers: int, steps: int) -> None:
    rank = directory / "rank_0" / layout.STATISTICS
    rank.mkdir(parents=True)
    ops = OpTable(rank)
    for number in range(layers):
        scope = f"Gradients/Default/net/{number}-Linear"
        node = OpNode(f"{scope}/mm-op0", "mm", scope, "backward")
        ops.number(node, LayerOutput())  # type: ignore[arg-type]
    connection = engine.connect()
    ops.write_new(connection)
    for first in range(0, steps, BLOCK):
        last = min(first + BLOCK, steps) - 1
        query = (
            "select step::integer as step, 0::integer as graph, step * 1000000 as time, "
            "op::integer as op, op::integer as position, "
            "(1 + sin(step / 500 + op) + (op % 7)) * exp(-op / 400) as l2norm, "
            "0::bigint as non_finite_count from "
            f"range({first}, {last + 1}) as s(step), range(0, {layers}) as o(op) "
            "order by step // 250, op, step"
        )
        write_file(connection, query, store_file(rank, "rows", first, last, "op_order"))
    connection.close()


def ask_server(run: DumpRun, layers: int, steps: int) -> dict[str, float]:
    source = run._trends.of_rank(0)
    began = time.process_time()
    source.grid("grad_norm")
    found = {"first_load_cpu_s": time.process_time() - began}
    parts = {
        "whole": (0, steps - 1, 0, layers),
        "a_tenth": (steps // 3, steps // 3 + steps // 10, 0, layers // 2),
        "cell_by_cell": (steps // 3, steps // 3 + 500, layers // 3, layers // 3 + 100),
    }
    for name, (first, last, top, bottom) in parts.items():
        query = LayersQuery(
            statistic="grad_norm", rank=0, first=first, last=last, top=top, bottom=bottom,
            rows=300, columns=1200,
        )  # fmt: skip
        times = []
        for _ in range(5):
            began = time.process_time()
            layer_cells(source, query, None)
            times.append(1e3 * (time.process_time() - began))
        found[f"{name}_cpu_ms"] = statistics.median(times)
    return found


class PageServer:
    """The page of one run on a free port, in a thread."""

    def __init__(self, run: DumpRun) -> None:
        runs = Runs()
        runs.add(run)
        config = uvicorn.Config(
            build_app(Context(runs, EventBroker())), port=0, log_config=None, lifespan="off"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._server.serve()))

    def __enter__(self) -> str:
        self._thread.start()
        while not self._server.started:
            time.sleep(0.05)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}/"

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()


def ask_browser(address: str, picture: str) -> dict[str, Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1920, "height": 1080})
        page.goto(address)
        page.locator(".map-frame canvas").wait_for(timeout=300_000)
        page.wait_for_load_state("networkidle")
        moved, busy = [], []
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        page.evaluate("performance.clearResourceTimings()")
        for key in KEYS:
            before = _main_thread_seconds(session)
            moved.append(page.evaluate(_MOVED, key))
            page.wait_for_load_state("networkidle")
            page.wait_for_timeout(300)
            busy.append(1e3 * (_main_thread_seconds(session) - before))
        loaded = page.evaluate(_LOADED)
        if picture:
            page.screenshot(path=picture)
        browser.close()
    return {
        "picture_moved_ms": _spread(moved),
        "main_thread_cpu_ms": _spread(busy),
        "cells_loaded_ms": _spread([each["ms"] for each in loaded]),
        "largest_answer_kb": max(each["bytes"] for each in loaded) / 1000,
    }


def _main_thread_seconds(session: Any) -> float:
    """The processor time of the page's main thread so far."""
    found = session.send("Performance.getMetrics")["metrics"]
    return float(next(each["value"] for each in found if each["name"] == "TaskDuration"))


def _spread(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "worst": max(values)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=2000)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--picture", default="", metavar="FILE", help="a screenshot at the end")
    options = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="sonde-health-"))
    try:
        make_store(place / "dump", options.layers, options.steps)
        run = DumpRun("dump", place / "dump", EventBroker())
        found: dict[str, Any] = {"cells": options.layers * options.steps}
        found["server"] = ask_server(run, options.layers, options.steps)
        with PageServer(run) as address:
            found["browser"] = ask_browser(address, options.picture)
        run.close()
    finally:
        shutil.rmtree(place)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
