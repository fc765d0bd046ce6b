"""A server for tests: welcomes ranks, stores their messages, sends given messages."""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from sonde.ranks.finding_codec import encode_findings
from sonde.wire.questions import AnyQuestion, Compared, Heat, OpTensors, Summary, Table
from sonde.wire.rank import (
    Answer,
    Ask,
    ControlMessage,
    FromRank,
    FromServer,
    GraphPart,
    Hello,
    Hits,
    JobEnd,
    JobFindings,
    Keep,
    Refused,
    SetWatchpoints,
    Status,
    StepDone,
    Welcome,
    from_rank,
)
from sonde.wire.shapes import ConditionSpec, Hit, Node, TensorName, WatchpointSpec

WAIT = 90.0
Message = TypeVar("Message", bound=FromRank)


class RankConnection:
    """One rank that connected. ``seen`` has all its messages, in order."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._requests = itertools.count(1)
        self._generations = itertools.count(1)
        self.seen: list[FromRank] = []
        self.is_over = False
        self.changed = threading.Condition()
        self._mark = 0

    # ------------------------------------------------------------- speaking

    def send(self, message: FromServer) -> None:
        body = msgspec.msgpack.encode(message)
        self.send_bytes(struct.pack(">I", len(body)) + body)

    def send_bytes(self, data: bytes) -> None:
        self._socket.sendall(data)

    def control(self, command: Any, *, steps: int = 1, op: str = "") -> None:
        """Everything that is waited for from here on comes after this."""
        with self.changed:
            self._mark = len(self.seen)
        self.send(ControlMessage(next(self._generations), command, steps, op))

    def watch(self, *watchpoints: WatchpointSpec) -> None:
        self.send(SetWatchpoints(watchpoints))

    def keep(self, *ops: str, steps: int = 2) -> None:
        self.send(Keep(ops, steps))

    def ask(self, op: str, question: AnyQuestion, **name: Any) -> list[Answer]:
        """The answers, all of them."""
        request = next(self._requests)
        body = msgspec.msgpack.encode(question)
        self.send(Ask(request, TensorName(op, **name), body))

        def found() -> list[Answer]:
            return [
                each for each in self.seen if isinstance(each, Answer) and each.request == request
            ]

        self.wait(lambda: bool(found()) and not found()[-1].more)
        return found()

    def answer(self, op: str, question: AnyQuestion, kind: Any, **name: Any) -> Any:
        (only,) = self.ask(op, question, **name)
        assert not only.error, only.error
        return msgspec.msgpack.decode(only.body, type=kind)

    def hang_up(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)

    # ------------------------------------------------------------ listening

    def listen(self) -> None:
        buffer = b""
        try:
            while data := self._socket.recv(1 << 16):
                buffer += data
                while len(buffer) >= 4 and len(buffer) >= 4 + struct.unpack(">I", buffer[:4])[0]:
                    end = 4 + struct.unpack(">I", buffer[:4])[0]
                    message = from_rank.decode(buffer[4:end])
                    buffer = buffer[end:]
                    with self.changed:
                        self.seen.append(message)
                        self.changed.notify_all()
                    if isinstance(message, JobEnd):
                        # A rank waits for the end of the comparison.
                        self.send(JobFindings(encode_findings(()), True, 0))
        except OSError:
            pass
        with self.changed:
            self.is_over = True
            self.changed.notify_all()
        self._socket.close()

    def wait(self, is_so: Callable[[], bool]) -> None:
        with self.changed:
            done = self.changed.wait_for(lambda: is_so() or self.is_over, WAIT)
            assert done, f"waited in vain; last heard: {self.seen[-3:]}"
            assert is_so(), f"the rank hung up; last heard: {self.seen[-3:]}"

    def paused(self) -> Status:
        """The next pause after the last control."""

        def found() -> list[Status]:
            return [
                each
                for each in self.seen[self._mark :]
                if isinstance(each, Status) and each.state == "paused"
            ]

        self.wait(lambda: bool(found()))
        return found()[-1]

    def ended(self) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.is_over, WAIT)

    def all(self, kind: type[Message]) -> list[Message]:
        with self.changed:
            return [each for each in self.seen if isinstance(each, kind)]

    @property
    def hello(self) -> Hello:
        return self.all(Hello)[0]

    @property
    def hits(self) -> list[Hit]:
        return [hit for message in self.all(Hits) for hit in message.hits]

    @property
    def steps(self) -> list[StepDone]:
        return self.all(StepDone)

    def nodes(self, graph: int = 0) -> dict[str, Node]:
        """The nodes that have run."""
        return {
            node.name: node
            for part in self.all(GraphPart)
            if part.graph == graph and part.basis == "run"
            for node in part.nodes
        }


class Hub:
    """Listens on a free port of this machine; ``with Hub() as hub``."""

    def __init__(
        self, *, port: int = 0, paused: bool = True, watchpoints: tuple[WatchpointSpec, ...] = ()
    ) -> None:
        self._welcome = Welcome(watchpoints, paused, 0)
        self.refusal = ""
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self.ranks: list[RankConnection] = []
        self._arrived = threading.Condition()

    def __enter__(self) -> Hub:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # or accept() would go on
        self._listener.close()
        for rank in self.ranks:
            with contextlib.suppress(OSError):
                rank.hang_up()

    def rank(self, number: int = 0, *, connection: int = 0) -> RankConnection:
        """The connection of rank ``number``: its first one, or a later one."""

        def found() -> list[RankConnection]:
            return [each for each in self.ranks if each.seen and each.hello.metadata.rank == number]

        with self._arrived:
            assert self._arrived.wait_for(lambda: len(found()) > connection, WAIT)
            return found()[connection]

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        rank = RankConnection(connection)
        reader = threading.Thread(target=rank.listen, daemon=True)
        reader.start()
        rank.wait(lambda: bool(rank.seen))
        rank.send(Refused(self.refusal) if self.refusal else self._welcome)
        with self._arrived:
            self.ranks.append(rank)
            self._arrived.notify_all()


def watchpoint(
    number: int, condition: str, *ops: str, expression: str = "", **parameters: Any
) -> WatchpointSpec:
    """A watchpoint with one condition."""
    spec = ConditionSpec(condition, parameters, expression)
    return WatchpointSpec(number, f"wp{number}", (spec,), ops)


ANSWERS = (Summary, Table, Heat, Compared, OpTensors)
