"""The line that tells how much is left to write when a program ends."""

from __future__ import annotations

import sys
from types import TracebackType

from sonde.dump.writer import Writer

_WORTH_SAYING_BYTES = 64 * 1024 * 1024


class FlushProgress:
    """Shows what a writer has left to do on stderr: one line, rewritten on a terminal.

    Says nothing when there is little to wait for.
    """

    def __init__(self, writer: Writer) -> None:
        self._total = writer.pending_bytes
        self._is_terminal = sys.stderr.isatty()
        self._shown = False

    def __enter__(self) -> FlushProgress:
        if self._total >= _WORTH_SAYING_BYTES and not self._is_terminal:
            print(f"sonde: writing the last {_size(self._total)} of the dump", file=sys.stderr)
        return self

    def show(self, jobs: int, pending: int) -> None:
        if self._is_terminal and self._total >= _WORTH_SAYING_BYTES:
            done = self._total - pending
            self._shown = True
            print(
                f"\rsonde: writing the dump, {_size(done)} of {_size(self._total)}, "
                f"{jobs} files to go ",
                end="",
                file=sys.stderr,
                flush=True,
            )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _size(count: int) -> str:
    return f"{count / 1e6:.0f} MB" if count < 1e9 else f"{count / 1e9:.1f} GB"
