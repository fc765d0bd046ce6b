"""The rank's socket: connects, reads, sends, and reconnects when the connection breaks."""

from __future__ import annotations

import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Final

import msgspec

from sonde.core.errors import SondeError
from sonde.core.interruption import ignored, pass_on, start_thread
from sonde.core.threads.thread_event import ThreadEvent
from sonde.core.weak_table import WeakTable
from sonde.wire.framing import FrameError, FrameReader, frame, notice_absence
from sonde.wire.rank import (
    MISSED_HEARTBEATS,
    Alive,
    FromRank,
    FromServer,
    Heartbeat,
    Hello,
    Refused,
    Welcome,
)
from sonde.wire.tls import CertificateError, Connection, Trust

_CONNECT_SECONDS: Final = 3.0
_HANDSHAKE_SECONDS: Final = 10.0
_SEND_SECONDS: Final = 10
_FIRST_DELAY: Final = 0.25
_LONGEST_DELAY: Final = 5.0
_SOON_SECONDS: Final = 0.05
_WAKE_SECONDS: Final = 1.0
_CHUNK: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class Connected:
    """The server accepted the rank. ``resumes``: the rank was connected before, to this server or
    to one that replaced it."""

    welcome: Welcome
    resumes: bool


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The connection broke or was refused. The link tries again unless ``for_good``. ``slug``: of
    the message to show, if it has one of its own. ``silent_seconds``: for how long the server had
    sent nothing before, although the connection was open."""

    why: str
    for_good: bool = False
    slug: str = ""
    silent_seconds: float = 0.0


ServerEvent = Connected | Disconnected | FromServer


class _RefusedError(SondeError):
    """The server refused this rank."""


class Link:
    """One connection at a time to one server.

    ``deliver`` is called with every event, in order, in the link's own thread, which sleeps in the
    kernel between events. ``send`` and ``close`` may be called from any thread; a lock guards the
    socket and the bytes that wait to be sent. Without a connection, messages are dropped: the
    caller must resend its state after a Connected. ``access`` is asked before each attempt to
    connect for the token, and for the certificate to trust, None without TLS.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        access: Callable[[], tuple[str, Trust | None]],
        hello: Callable[[bool], Hello],
        deliver: Callable[[ServerEvent], None],
    ) -> None:
        self._endpoint = (host, port)
        self._access = access
        self._hello = hello
        self._deliver = deliver
        self._lock = threading.Lock()
        self._socket: Connection | None = None
        self._pending = bytearray()
        self._flushed = 0.0
        self._was_connected = False
        self._secret = ""
        self._silence_seconds = inf
        self._reported = ""
        self._stop = ThreadEvent()
        self._thread = threading.Thread(target=self._serve, name="sonde-link", daemon=True)
        self._reader = FrameReader()
        self._early: list[FromServer] = []
        _LIVE[self] = None

    @property
    def _address(self) -> str:
        return f"{self._endpoint[0]}:{self._endpoint[1]}"

    @property
    def is_connected(self) -> bool:
        return self._socket is not None

    @property
    def is_given_up(self) -> bool:
        """Whether the link stopped trying to connect: after a refusal, or after ``close``."""
        return self._stop.is_set()

    def open(self, wait_seconds: float) -> bool:
        """Connect, waiting up to ``wait_seconds`` for the server; whether that succeeded. Unless
        the server refused, the link's thread keeps trying in the background."""
        deadline = time.monotonic() + wait_seconds
        delay = _FIRST_DELAY
        while not self._connect() and not self._stop.is_set():
            if time.monotonic() + delay > deadline:
                break
            time.sleep(delay)
            delay = min(2 * delay, 1.0)
        if not self._stop.is_set():
            start_thread(self._thread)
        return self.is_connected

    def send(self, message: FromRank, *, soon: bool = False) -> None:
        """Send ``message``. ``soon``: with the next message, or within a second, which saves a
        system call per message when steps are fast."""
        data = frame(message)
        with self._lock:
            if self._socket is None:
                return
            self._pending += data
            now = time.monotonic()
            if not soon or now - self._flushed > _SOON_SECONDS:
                self._flush(now)

    def close(self, *last: FromRank) -> None:
        """Send ``last`` and disconnect."""
        for message in last:
            self.send(message)
        self._stop.set()
        with self._lock:
            if self._socket is not None:
                self._shut_down(self._socket)
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout=2.0)
        _LIVE.discard(self)

    # --------------------------------------------------------------- sending

    def _flush(self, now: float) -> None:
        """Send the pending bytes; the caller holds the lock."""
        assert self._socket is not None
        self._flushed = now
        try:
            self._socket.sendall(self._pending)
        except OSError as error:
            pass_on(error)
            # The reading thread notices, and delivers a Disconnected.
            self._shut_down(self._socket)
        self._pending.clear()

    @staticmethod
    def _shut_down(connection: Connection) -> None:
        with ignored(OSError):
            connection.shutdown(socket.SHUT_RDWR)

    # ------------------------------------------------------------- connecting

    def _connect(self) -> bool:
        """Connect once; whether the server accepted the rank."""
        try:
            plain = socket.create_connection(self._endpoint, timeout=_CONNECT_SECONDS)
        except OSError as error:
            pass_on(error)
            return False
        connection: Connection = plain
        try:
            plain.settimeout(_HANDSHAKE_SECONDS)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            notice_absence(plain)
            token, trust = self._access()
            if trust is not None:
                connection = trust.connect(plain, self._endpoint[0])
            welcome = self._shake_hands(connection, token)
        except (OSError, FrameError, _RefusedError, CertificateError) as error:
            connection.close()
            pass_on(error)
            if isinstance(error, CertificateError):
                self._refused(f"the server at {self._address}: {error.message}", error.slug)
            elif isinstance(error, FrameError):
                what = f"the program at {self._address} is not a debugger server ({error.message})"
                self._refused(what, error.slug)
            elif isinstance(error, _RefusedError):
                self._refused(error.message, error.slug)
            return False
        with self._lock:
            if self._stop.is_set():  # ``close`` was called meanwhile, and found no socket.
                connection.close()
                return False
            self._pending.clear()
            self._socket = connection
        self._secret = welcome.secret
        beat = welcome.heartbeat_seconds
        self._silence_seconds = MISSED_HEARTBEATS * beat if beat > 0 else inf
        self._deliver(Connected(welcome, self._was_connected))
        self._was_connected = True
        self._reported = ""
        return True

    def _refused(self, why: str, slug: str) -> None:
        """Give up after a refusal at the first attempt. After a reconnect, keep trying and report
        each reason once: a restarted server may have the wrong token, which can be corrected."""
        if not self._was_connected:
            self._stop.set()
            self._deliver(Disconnected(why, for_good=True, slug=slug))
        elif why != self._reported:
            self._reported = why
            self._deliver(Disconnected(why, slug=slug))

    def _shake_hands(self, connection: Connection, token: str) -> Welcome:
        hello = self._hello(self._was_connected)
        hello = msgspec.structs.replace(hello, token=token, secret=self._secret)
        connection.sendall(frame(hello))
        self._reader = FrameReader()
        while True:
            data = connection.recv(_CHUNK)
            if not data:
                raise ConnectionError("the server closed the connection")
            messages = list(self._reader.feed(data))
            if messages:
                break
        first, *others = messages
        if isinstance(first, Refused):
            raise _RefusedError(
                f"the debugger server at {self._address} refuses this training: {first.reason}",
                slug="debugger-refused",
            )
        if not isinstance(first, Welcome):
            raise FrameError("the server did not answer with a welcome")
        connection.settimeout(None)
        connection.setsockopt(
            socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _SEND_SECONDS, 0)
        )
        self._early = others
        return first

    # --------------------------------------------------------------- reading

    def _serve(self) -> None:
        delay = _FIRST_DELAY
        while not self._stop.is_set():
            if self._socket is None and not self._connect():
                self._stop.wait(delay)
                delay = min(2 * delay, _LONGEST_DELAY)
                continue
            delay = _FIRST_DELAY
            lost = self._read_until_lost()
            with self._lock:
                connection, self._socket = self._socket, None
            if connection is not None:
                connection.close()
            if self._stop.is_set():
                return
            if lost.for_good:
                self._stop.set()
            self._deliver(lost)

    def _read_until_lost(self) -> Disconnected:
        connection = self._socket
        assert connection is not None
        poll = select.poll()
        poll.register(connection, select.POLLIN)
        # Silence is counted in waits that ended without a message, not by a clock: a process that
        # itself stood still finds the messages of the server when it runs again.
        silent_seconds, wait_seconds = 0.0, min(_WAKE_SECONDS, self._silence_seconds / 4)
        try:
            for message in self._early:
                self._take(message)
            while silent_seconds < self._silence_seconds:
                if not poll.poll(1000 * wait_seconds):
                    silent_seconds += wait_seconds
                    with self._lock:
                        if self._pending and self._socket is not None:
                            self._flush(time.monotonic())
                    continue
                silent_seconds = 0.0
                data = connection.recv(_CHUNK)
                if not data:
                    return Disconnected("the server closed the connection")
                for message in self._reader.feed(data):
                    self._take(message)
            self._shut_down(connection)
            return Disconnected("the server does not answer", silent_seconds=silent_seconds)
        except OSError as error:
            pass_on(error)
            return Disconnected(error.strerror or str(error))
        except FrameError as error:
            self._shut_down(connection)
            why = f"the debugger server sent an invalid message ({error.message})"
            return Disconnected(why, for_good=True, slug=error.slug)

    def _take(self, message: FromServer) -> None:
        """Answer a heartbeat; deliver any other message."""
        if isinstance(message, Heartbeat):
            self.send(Alive())
        else:
            self._deliver(message)

    def abandon_in_child(self) -> None:
        """Drop the connection in a forked child: it belongs to the parent."""
        self._stop.set()
        connection, self._socket = self._socket, None
        if connection is not None:
            connection.close()


_LIVE: WeakTable[Link, None] = WeakTable()


def _after_fork_in_child() -> None:
    for link in list(_LIVE):
        link.abandon_in_child()
        _LIVE.discard(link)


os.register_at_fork(after_in_child=_after_fork_in_child)
