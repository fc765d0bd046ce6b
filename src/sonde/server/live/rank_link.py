"""The server's end of a rank's connection: sends messages, and matches answers to questions."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from dataclasses import dataclass
from typing import IO, Final

from sonde.core.errors import UsageError
from sonde.wire.framing import frame
from sonde.wire.rank import MISSED_HEARTBEATS, Answer, Ask, FromServer, Heartbeat
from sonde.wire.shapes import TensorName

MOST_WAITING: Final = 64
"""Open questions to one rank; more are refused."""
MOST_UNSENT_BYTES: Final = 16 << 20
MOST_DOWNLOAD_BYTES: Final = 8 << 30
ANSWER_SECONDS: Final = 120.0


@dataclass(slots=True)
class _Waiting:
    """An open question; the bodies of its answers are written to ``spool``."""

    spool: IO[bytes]
    ended: asyncio.Future[None]
    size: int = 0

    def fail(self, error: UsageError) -> None:
        if not self.ended.done():
            self.ended.set_exception(error)


class RankLink:
    """One connection. Used in the thread of the event loop only."""

    def __init__(self, writer: asyncio.StreamWriter, name: str) -> None:
        self._writer = writer
        self._name = name
        self._waiting: dict[int, _Waiting] = {}
        self._last = 0
        self._unanswered = 0
        self.is_open = True

    @property
    def address(self) -> str:
        """The IP address and port of the rank; empty if the connection has none."""
        peer = self._writer.get_extra_info("peername")
        if not isinstance(peer, tuple) or len(peer) < 2:
            return ""
        host, port = peer[:2]
        return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"

    @property
    def is_answering(self) -> bool:
        """Whether the rank has sent anything since the last few heartbeats."""
        return self._unanswered <= MISSED_HEARTBEATS

    def beat(self) -> None:
        """Send a heartbeat. They are counted, not timed: a server that itself stood still finds the
        answers of its ranks when it runs again."""
        self._unanswered += 1
        self.send(Heartbeat())

    def heard(self) -> None:
        """Note that the rank sent a message."""
        self._unanswered = 0

    def send(self, message: FromServer) -> None:
        """Send without blocking; a rank that does not read for too long is disconnected."""
        if not self.is_open:
            return
        transport = self._writer.transport
        if transport.get_write_buffer_size() > MOST_UNSENT_BYTES:
            transport.abort()
            return
        with contextlib.suppress(OSError, RuntimeError):
            self._writer.write(frame(message))

    async def ask(self, tensor: TensorName, question: bytes) -> bytes:
        """The body of the answer; UsageError with the rank's message, or if it is disconnected."""
        with tempfile.SpooledTemporaryFile(max_size=80 << 20) as spool:
            await self.download(tensor, question, spool)
            spool.seek(0)
            return spool.read()

    async def download(self, tensor: TensorName, question: bytes, into: IO[bytes]) -> int:
        """Write the bodies of all answers to ``into``; their size. Raises as ``ask``."""
        if not self.is_open:
            raise gone(self._name)
        if len(self._waiting) >= MOST_WAITING:
            raise UsageError(
                f"{self._name} has {MOST_WAITING} open questions; try again later", slug="rank-busy"
            )
        self._last += 1
        request = self._last
        waiting = _Waiting(into, asyncio.get_running_loop().create_future())
        self._waiting[request] = waiting
        try:
            self.send(Ask(request, tensor, question))
            await asyncio.wait_for(waiting.ended, ANSWER_SECONDS)
        except asyncio.TimeoutError:
            raise UsageError(
                f"{self._name} did not answer in {ANSWER_SECONDS:.0f} s; pause it and try again",
                slug="rank-busy",
            ) from None
        finally:
            del self._waiting[request]
        return waiting.size

    def answered(self, answer: Answer) -> None:
        """Take an answer; one to a question that was given up is dropped."""
        waiting = self._waiting.get(answer.request)
        if waiting is None or waiting.ended.done():
            return
        if answer.error:
            waiting.fail(UsageError(answer.error, slug=answer.slug or "no-values"))
            return
        waiting.size += len(answer.body)
        if waiting.size > MOST_DOWNLOAD_BYTES:
            waiting.fail(
                UsageError(
                    f"the tensor is larger than {MOST_DOWNLOAD_BYTES} bytes", slug="too-large"
                )
            )
            return
        try:
            waiting.spool.write(answer.body)
        except OSError as error:
            waiting.fail(
                UsageError(f"cannot store the tensor on the server: {error}", slug="too-large")
            )
            return
        if not answer.more:
            waiting.ended.set_result(None)

    def close(self) -> None:
        """Close the connection; open questions fail."""
        self.is_open = False
        for waiting in self._waiting.values():
            waiting.fail(gone(self._name))
        with contextlib.suppress(OSError, RuntimeError):
            self._writer.close()


def gone(name: str) -> UsageError:
    return UsageError(
        f"{name} is not connected any more; values are available only while it is",
        slug="rank-gone",
    )
