"""The rank's socket: connects, reads, sends, and connects again when the server went away."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sonde.core.errors import SondeError
from sonde.debugger.frames import FrameReader, GarbageError, framed
from sonde.wire.liveness import notice_absence
from sonde.wire.rank import FromRank, FromServer, Hello, Refused, Welcome

_CONNECT_SECONDS: Final = 3.0
_HANDSHAKE_SECONDS: Final = 10.0
_SEND_SECONDS: Final = 10
_FIRST_DELAY: Final = 0.25
_LONGEST_DELAY: Final = 5.0
_SOON_SECONDS: Final = 0.05
_WAKE_MILLISECONDS: Final = 1000
_CHUNK: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class Welcomed:
    """The server is there. ``resumes``: it, or another in its place, was there before."""

    welcome: Welcome
    resumes: bool


@dataclass(frozen=True, slots=True)
class Lost:
    """The connection broke, or is refused, and is tried again unless ``for_good``. ``slug`` says
    which message of ours that is, if it is one."""

    why: str
    for_good: bool = False
    slug: str = ""


News = Welcomed | Lost | FromServer


class _RefusedError(SondeError):
    """The server does not want this rank."""


class Link:
    """One connection at a time to one server.

    ``deliver`` is called with all news, in order, in the link's own thread, which sleeps in the
    kernel when there are none. ``send`` and ``close`` may be called from any thread. What is sent
    while nobody is connected is dropped: who is told of a new connection says everything again.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        hello: Callable[[bool], Hello],
        deliver: Callable[[News], None],
    ) -> None:
        self._place = (host, port)
        self._hello = hello
        self._deliver = deliver
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._pending = bytearray()
        self._flushed = 0.0
        self._was_connected = False
        self._complaint = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="sonde-link", daemon=True)
        self._reader = FrameReader()
        self._early: list[FromServer] = []
        _LIVE.add(self)

    @property
    def _address(self) -> str:
        return f"{self._place[0]}:{self._place[1]}"

    @property
    def is_connected(self) -> bool:
        return self._socket is not None

    @property
    def is_given_up(self) -> bool:
        """The server said no, or was told goodbye: nobody tries to connect any more."""
        return self._stop.is_set()

    def open(self, wait_seconds: float) -> bool:
        """Connect, waiting up to so long for the server; whether it is there. It is tried on in
        the background, unless the server refused."""
        deadline = time.monotonic() + wait_seconds
        delay = _FIRST_DELAY
        while not self._connect() and not self._stop.is_set():
            if time.monotonic() + delay > deadline:
                break
            time.sleep(delay)
            delay = min(2 * delay, 1.0)
        if not self._stop.is_set():
            self._thread.start()
        return self.is_connected

    def send(self, message: FromRank, *, soon: bool = False) -> None:
        """``soon``: with the next one, or within a second, so that fast steps cost nothing."""
        data = framed(message)
        with self._lock:
            if self._socket is None:
                return
            self._pending += data
            now = time.monotonic()
            if not soon or now - self._flushed > _SOON_SECONDS:
                self._flush(now)

    def close(self, *last: FromRank) -> None:
        """Send the last words and hang up."""
        for message in last:
            self.send(message)
        self._stop.set()
        with self._lock:
            if self._socket is not None:
                self._hang_up(self._socket)
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout=2.0)
        _LIVE.discard(self)

    # --------------------------------------------------------------- sending

    def _flush(self, now: float) -> None:
        """With the lock held."""
        assert self._socket is not None
        self._flushed = now
        try:
            self._socket.sendall(self._pending)
        except OSError:
            # The reader finds out, and says so.
            self._hang_up(self._socket)
        self._pending.clear()

    @staticmethod
    def _hang_up(connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)

    # ------------------------------------------------------------- connecting

    def _connect(self) -> bool:
        """Whether the server is there and has welcomed us."""
        try:
            connection = socket.create_connection(self._place, timeout=_CONNECT_SECONDS)
        except OSError:
            return False
        try:
            welcome = self._shake_hands(connection)
        except (OSError, GarbageError, _RefusedError) as error:
            connection.close()
            if isinstance(error, GarbageError):
                what = f"what listens at {self._address} is no debugger server ({error.message})"
                self._take_no(what, error.slug)
            elif isinstance(error, _RefusedError):
                self._take_no(error.message, error.slug)
            return False
        with self._lock:
            self._pending.clear()
            self._socket = connection
        self._deliver(Welcomed(welcome, self._was_connected))
        self._was_connected = True
        self._complaint = ""
        return True

    def _take_no(self, why: str, slug: str) -> None:
        """A server that never knew us is left alone. One in the place of a server that did, with
        another token maybe, may be put right: it is asked again, and what it says is told once."""
        if not self._was_connected:
            self._stop.set()
            self._deliver(Lost(why, for_good=True, slug=slug))
        elif why != self._complaint:
            self._complaint = why
            self._deliver(Lost(why, slug=slug))

    def _shake_hands(self, connection: socket.socket) -> Welcome:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        notice_absence(connection)
        connection.settimeout(_HANDSHAKE_SECONDS)
        connection.sendall(framed(self._hello(self._was_connected)))
        self._reader = FrameReader()
        while True:
            data = connection.recv(_CHUNK)
            if not data:
                raise ConnectionError("the server hung up")
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
            raise GarbageError("the server did not say hello", slug="debugger-garbage")
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

    def _read_until_lost(self) -> Lost:
        connection = self._socket
        assert connection is not None
        poll = select.poll()
        poll.register(connection, select.POLLIN)
        try:
            for message in self._early:
                self._deliver(message)
            while True:
                if not poll.poll(_WAKE_MILLISECONDS):
                    with self._lock:
                        if self._pending and self._socket is not None:
                            self._flush(time.monotonic())
                    continue
                data = connection.recv(_CHUNK)
                if not data:
                    return Lost("the server hung up")
                for message in self._reader.feed(data):
                    self._deliver(message)
        except OSError as error:
            return Lost(error.strerror or str(error))
        except GarbageError as error:
            self._hang_up(connection)
            why = f"the debugger server sent what is no message ({error.message})"
            return Lost(why, for_good=True, slug=error.slug)

    def abandon_in_child(self) -> None:
        """In a forked child: the connection is the parent's."""
        self._stop.set()
        connection, self._socket = self._socket, None
        if connection is not None:
            connection.close()


_LIVE: weakref.WeakSet[Link] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for link in list(_LIVE):
        link.abandon_in_child()
    _LIVE.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)
