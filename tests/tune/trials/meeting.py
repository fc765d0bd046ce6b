"""Trials that wait for each other, in processes of their own, without polling."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

PATIENCE = 120.0


@contextmanager
def meeting(count: int) -> Iterator[str]:
    """Code with which a trial waits until so many of them are there, and fails if it waits in vain;
    who comes later goes on at once."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        host = threading.Thread(target=_welcome, args=(listener, count))
        host.start()
        try:
            yield f"import socket\nassert socket.create_connection({address}, {PATIENCE}).recv(1)\n"
        finally:
            listener.shutdown(socket.SHUT_RDWR)  # or accept() would go on
            host.join()


def _welcome(listener: socket.socket, count: int) -> None:
    came, waiting = 0, []
    while True:
        try:
            waiting.append(listener.accept()[0])
        except OSError:
            break
        came += 1
        if came >= count:
            for each in waiting:
                with each, suppress(OSError):
                    each.sendall(b"!")
            waiting.clear()
    for each in waiting:
        each.close()
