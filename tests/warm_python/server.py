"""Forks Python processes in which torch is already imported.

Importing torch and its compiler takes longer than most programs of the tests run. This process
imports them once and forks whenever a client (``client.py``) asks; the child takes over the files,
directory, environment and arguments of the client and runs the program as ``python`` would.
``python server.py NUMBER`` listens on the socket it inherits and ends when its standard input does.
"""

from __future__ import annotations

import atexit
import builtins
import importlib
import io
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
import types
from collections.abc import Callable
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from typing import Any

FILES = 3  # standard input, output and error
Request = dict[str, Any]


def import_torch() -> None:
    """Import what every training of the tests imports; no thread may start here."""
    for name in (
        "numpy.random",
        "torch._dynamo",
        "torch.utils.data",
        "sonde.adapters.torch.attach",
    ):
        importlib.import_module(name)
    assert len(os.listdir("/proc/self/task")) == 1, "a process with threads cannot be forked"


class Server:
    """Children by number, each with the connection of the client that waits for it."""

    def __init__(self, listener: int) -> None:
        self._listener = socket.socket(fileno=listener)
        self._listener.set_inheritable(False)
        self._clients: dict[int, socket.socket] = {}
        self._wake, self._signalled = socket.socketpair()
        self._signalled.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._signalled.fileno(), warn_on_full_buffer=False)

    def requests(self) -> Request | None:
        """Fork for each request: returns a request in its child, None here at the end."""
        while True:
            listened = [sys.stdin.fileno(), self._listener, self._wake, *self._clients.values()]
            for ready in select.select(listened, [], [])[0]:
                if ready is self._listener:
                    request = self._accept()
                    if request is not None:
                        return request
                elif ready is self._wake:
                    self._wake.recv(4096)
                    self._reap()
                elif isinstance(ready, socket.socket):
                    self._hang_up(ready)
                else:
                    for pid in self._clients:
                        os.kill(pid, signal.SIGKILL)
                    return None

    def _accept(self) -> Request | None:
        """The request in the child, None in the parent."""
        client, _ = self._listener.accept()
        data, files, _, _ = socket.recv_fds(client, 1 << 16, FILES)
        while not data.endswith(b"\n"):
            more = client.recv(1 << 16)
            if not more:  # The client was killed before it could say what it wants.
                client.close()
                return None
            data += more
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for each in (client, self._listener, *self._clients.values()):
                each.close()
            self._wake.close()
            self._signalled.close()
            request: Request = json.loads(data)
            if request["is_leader"]:
                os.setsid()
            for number, file in enumerate(files):
                os.dup2(file, number)
                os.close(file)
            return request
        for file in files:
            os.close(file)
        client.sendall(b"%d\n" % pid)
        self._clients[pid] = client
        return None

    def _reap(self) -> None:
        while self._clients:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            with self._clients.pop(pid) as client, suppress(OSError):
                client.sendall(b"%d\n" % status)

    def _hang_up(self, client: socket.socket) -> None:
        """A client that is gone was killed, and so is what ran in its place."""
        for pid, each in self._clients.items():
            if each is client and not client.recv(1):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                self._clients.pop(pid).close()
                return


def become(request: Request) -> None:
    """Take over the client's environment and run its program."""
    os.chdir(request["directory"])
    os.umask(request["umask"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.executable = request["executable"]
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    sys.path[1:1] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    words: list[str] = request["arguments"]
    sys.orig_argv = [sys.executable, *words]
    unbuffered = words[0] == "-u"
    words = words[unbuffered:]
    unbuffered |= bool(os.environ.get("PYTHONUNBUFFERED"))
    sys.stdin, sys.stdout, sys.stderr = open(0), output(1, unbuffered), output(2, True)  # noqa: SIM115
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    sys.modules["numpy"].random.seed()
    sys.modules["torch"].seed()  # as a process that has just started has its own
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main
    if words[0] == "-m":
        sys.path[0] = os.getcwd()
        sys.argv[:] = ["-m", *words[2:]]
        runpy._run_module_as_main(words[1])  # type: ignore[attr-defined]
    elif words[0] == "-c":
        sys.path[0] = ""
        sys.argv[:] = ["-c", *words[2:]]
        exec(compile(words[1], "<string>", "exec"), main.__dict__)
    else:
        script = os.path.abspath(words[0])
        sys.path[0] = os.path.dirname(script)
        sys.argv[:] = words
        main.__dict__.update(__file__=script, __loader__=SourceFileLoader("__main__", script))
        with open(script, "rb") as file:
            code = compile(file.read(), script, "exec")
        exec(code, main.__dict__)


def end(run: Callable[[], None]) -> None:
    """Call ``run`` and end the process as Python would, without taking its modules apart."""
    code: object = 0
    is_interrupted = False
    try:
        run()
    except SystemExit as error:
        code = error.code
    except BaseException as error:
        code, is_interrupted = 1, isinstance(error, KeyboardInterrupt)
        shown = error.with_traceback(_frames_of_program(error.__traceback__))
        sys.excepthook(type(shown), shown, shown.__traceback__)
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    if is_interrupted:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(0 if code is None else int(code) & 0xFF)


def _frames_of_program(frames: types.TracebackType | None) -> types.TracebackType | None:
    while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next
    return frames


def output(number: int, unbuffered: bool) -> io.TextIOWrapper:
    raw: Any = open(number, "wb", buffering=0 if unbuffered else -1)  # noqa: SIM115
    is_terminal = os.isatty(number)
    errors = "backslashreplace" if number == 2 else "strict"
    return io.TextIOWrapper(
        raw,
        encoding="utf-8",
        errors=errors,
        write_through=unbuffered,
        line_buffering=is_terminal,
    )


if __name__ == "__main__":
    sys.path[0] = ""
    import_torch()
    found = Server(int(sys.argv[1])).requests()
    if found is not None:
        end(lambda: become(found))
