"""A simulated training process: it implements the rank's side of the protocol without a training.

``python -m sonde.testing.fake_rank --port 50051`` starts one for use in a browser: it executes all
controls, has a tensor for every op, and its ``log`` produces NaN from step 5 on.
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from sonde.core.errors import SondeError
from sonde.debugger.launch.server_registry import access_to
from sonde.testing.sample_graph import sample_graph
from sonde.testing.sample_reports import sample_reports
from sonde.testing.sample_values import NAN_FROM_STEP, SAMPLE_TOKEN, SampleValues, sample_metadata
from sonde.wire.framing import FrameReader, frame
from sonde.wire.rank import (
    GRAPH_PART_NODES,
    PROTOCOL,
    Alive,
    Answer,
    Ask,
    ControlMessage,
    FromRank,
    FromServer,
    Goodbye,
    GraphPart,
    Heartbeat,
    Hello,
    Hits,
    JobStart,
    MeasureSpeed,
    RankReports,
    SetWatchpoints,
    Status,
    StepDone,
    Welcome,
)
from sonde.wire.shapes import Hit, LossPoint, Node, PauseReason, State, TensorName, WatchpointSpec


class RankSocket:
    """A connection to the server that sends and receives single messages."""

    def __init__(self, host: str, port: int, timeout_seconds: float = 30.0) -> None:
        self.raw = socket.create_connection((host, port), timeout_seconds)
        self.raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = FrameReader()

    def send(self, message: FromRank) -> None:
        self.raw.sendall(frame(message))

    def receive(self) -> FromServer | None:
        """The next message; None when the server closed the connection."""
        data = b""
        while (message := next(self._reader.feed(data), None)) is None:
            try:
                data = self.raw.recv(1 << 16)
            except ConnectionResetError:
                return None
            if not data:
                return None
        return message

    def close(self) -> None:
        self.raw.close()


class FakeRank:
    """Executes the server's commands as a training would: one step visits all ``nodes`` in order.

    ``start`` connects and serves in a thread of its own until all steps are done, the server
    terminates it or closes the connection, or ``close`` is called. ``steps`` is the number of
    steps, ``step_seconds`` the duration of each. ``is_compared``: it reports its steps, and one
    rank of several parts from the others (``sample_reports``).
    """

    def __init__(
        self,
        port: int,
        *,
        host: str = "127.0.0.1",
        run: str = "run-1",
        rank: int = 0,
        world_size: int = 1,
        token: str = SAMPLE_TOKEN,
        secret: str = "",
        nodes: Sequence[Node] | None = None,
        steps: int = 20,
        step_seconds: float = 0.0,
        resumes: bool = False,
        is_compared: bool = False,
    ) -> None:
        self.nodes = tuple(sample_graph() if nodes is None else nodes)
        self.step = 0
        self.welcome: Welcome | None = None
        self.watchpoints: tuple[WatchpointSpec, ...] = ()
        self._places = {node.name: place for place, node in enumerate(self.nodes)}
        self._values = SampleValues({node.name: node for node in self.nodes}, rank)
        self._address = (host, port)
        self._steps = steps
        self._step_seconds = step_seconds
        metadata = sample_metadata(rank, world_size)
        self._hello = Hello(PROTOCOL, token, run, metadata, resumes, secret=secret)
        self._is_compared = is_compared
        self._place = 0
        self._generation = 0
        self._hits = 0
        self._hit_step = -1
        self._is_measuring = False
        self._stop_at: tuple[int, int, PauseReason] | None = None
        self._state: State = "paused"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self.socket: RankSocket | None = None

    def start(self) -> FakeRank:
        """Connect, send the graph and the first status, start the thread, and return the rank."""
        self.socket = RankSocket(*self._address)
        self.socket.send(self._hello)
        answer = self.socket.receive()
        if not isinstance(answer, Welcome):
            self.socket.close()
            raise ConnectionRefusedError(f"the server answered {answer}")
        self.welcome, self.watchpoints = answer, answer.watchpoints
        self._generation = answer.generation
        for first in range(0, max(len(self.nodes), 1), GRAPH_PART_NODES):
            part = self.nodes[first : first + GRAPH_PART_NODES]
            self.socket.send(GraphPart(0, "train", first, part, len(self.nodes)))
        if self._is_compared:
            self.socket.send(JobStart(0.0))
        if answer.paused:
            self._pause("start")
        else:
            self._state = "running"
            self._report_state()
        self._thread.start()
        return self

    def join(self, timeout_seconds: float = 30.0) -> None:
        self._thread.join(timeout_seconds)

    def close(self) -> None:
        """Close the connection without a ``goodbye``, as a killed process does."""
        if self.socket is not None:
            with contextlib.suppress(OSError):
                self.socket.raw.shutdown(socket.SHUT_RDWR)  # The thread may be reading.
            self.socket.raw.close()

    def array(self, tensor: TensorName) -> NDArray[Any]:
        """The values of a tensor, derived from its name and step; from step 5 on some are NaN."""
        return self._values.array(tensor, self.step)

    # ------------------------------------------------------------ the thread

    def _serve(self) -> None:
        assert self.socket is not None
        try:
            while True:
                if self._state == "running":
                    self._run_on()
                if self._has_ended():
                    return
                try:
                    message = self._next_message()
                except TimeoutError:
                    continue
                if message is None:
                    return
                self._take(message)
        except OSError:
            return
        finally:
            self.socket.close()

    def _has_ended(self) -> bool:
        return self._state == "ended"

    def _next_message(self) -> FromServer | None:
        """The next message; TimeoutError while running if the server has not sent one yet."""
        assert self.socket is not None
        self.socket.raw.settimeout(0.001 if self._state == "running" else None)
        try:
            return self.socket.receive()
        finally:
            self.socket.raw.settimeout(None)

    def _take(self, message: FromServer) -> None:
        match message:
            case ControlMessage():
                self._obey(message)
            case SetWatchpoints():
                self.watchpoints = message.watchpoints
            case MeasureSpeed():
                self._is_measuring = True
            case Ask():
                self._answer(message)
            case Heartbeat():
                self._send(Alive())

    def _obey(self, control: ControlMessage) -> None:
        self._generation = control.generation
        self._stop_at = None
        match control.command:
            case "terminate":
                error = "sonde.Terminated: terminated from the debugger"
                self._send(Goodbye(1, error, is_terminated=True))
                self._state = "ended"
                return
            case "pause":
                self._pause("pause")
                return
            case "step":
                self._stop_at = (self.step + control.steps, 0, "step")
            case "next":
                following = self._place + 1
                wraps = following >= len(self.nodes)
                self._stop_at = (self.step + wraps, 0 if wraps else following, "op")
            case "to":
                place = self._places.get(control.op, 0)
                self._stop_at = (self.step + (place <= self._place), place, "op")
        self._state = "running"
        self._report_state()

    def _run_on(self) -> None:
        """Run to the end of the current step, or to the op at which to stop."""
        if self._stop_at is not None and self._stop_at[0] == self.step and self._stop_at[1]:
            self._place = self._stop_at[1]
            self._pause(self._stop_at[2])
            return
        if self._step_seconds:
            time.sleep(self._step_seconds)
        if self.step >= NAN_FROM_STEP and self.step != self._hit_step and self._find_hits():
            self._hit_step = self.step
            self._pause("hit")
            return
        self._end_step()
        if self.step >= self._steps:
            self._send(Goodbye(0, ""))
            self._state = "ended"
        elif self._stop_at is not None and self._stop_at[:2] == (self.step, 0):
            self._pause(self._stop_at[2])
        else:
            self._report_state()

    def _end_step(self) -> None:
        loss = 2.0 / (1 + self.step) if self.step < NAN_FROM_STEP else "nan"
        measures, self._is_measuring = self._is_measuring, False
        point = LossPoint(self.step, loss, 0.01, 0.008 if measures else None, not measures)
        self._send(StepDone(point, 0, is_measurement=measures))
        if self._is_compared:
            metadata = self._hello.metadata
            self._send(RankReports(sample_reports(metadata.rank, metadata.world_size, self.step)))
        self.step += 1
        self._place = 0

    def _find_hits(self) -> bool:
        hits: list[Hit] = []
        bad = [node for node in self.nodes if node.type in ("log", "mean")]
        for watchpoint in self.watchpoints:
            ids = {condition.id for condition in watchpoint.conditions}
            if watchpoint.enabled and "tensor_overflow" in ids:
                hits += [self._hit(watchpoint.id, node, bad[0]) for node in bad]
        if hits:
            self._send(Hits(tuple(hits)))
            self._place = hits[0].order
        return bool(hits)

    def _hit(self, watchpoint: int, node: Node, origin: Node) -> Hit:
        self._hits += 1
        return self._values.hit(self._hits - 1, watchpoint, self.step, node, origin)

    def _answer(self, ask: Ask) -> None:
        try:
            bodies = self._values.bodies(ask, self.step)
        except (SondeError, KeyError, IndexError) as error:
            self._send(Answer(ask.request, error=str(error), slug="no-values"))
            return
        for number, body in enumerate(bodies, 1):
            self._send(Answer(ask.request, body, more=number < len(bodies)))

    def _pause(self, reason: PauseReason) -> None:
        self._state = "paused"
        self._stop_at = None
        self._report_state(reason)

    def _report_state(self, reason: PauseReason | None = None) -> None:
        node = self.nodes[self._place] if self.nodes else None
        self._send(
            Status(
                self._state,
                self.step,
                0,
                node.name if node is not None else None,
                node.order if node is not None else None,
                reason,
                "",
                self._generation,
            )
        )

    def _send(self, message: FromRank) -> None:
        assert self.socket is not None
        self.socket.send(message)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description="A simulated training process.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=50051)
    parser.add_argument("--token", default="", help="default: that of your own server")
    parser.add_argument("--run", default="run-1")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--check-ranks", dest="is_compared", action="store_true")
    parser.add_argument("--blocks", type=int, default=4, help="about 9 nodes each")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--step-seconds", type=float, default=0.2)
    given = vars(parser.parse_args(arguments))
    given["token"], _ = access_to(given["host"], given["port"], given["token"])
    port, nodes, count = given.pop("port"), sample_graph(given.pop("blocks")), given.pop("ranks")
    ranks = [
        FakeRank(port, rank=rank, world_size=count, nodes=nodes, **given).start()
        for rank in range(count)
    ]
    for rank in ranks:
        rank.join(10**9)


if __name__ == "__main__":
    main(sys.argv[1:])
