"""Executes notebooks with a real kernel."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbclient
import nbformat


@dataclass(frozen=True)
class Shown:
    """What a notebook shows below one cell."""

    outputs: Sequence[Any]

    def _data(self, kind: str) -> list[str]:
        return [str(each.data[kind]) for each in self.outputs if kind in each.get("data", ())]

    @property
    def html(self) -> list[str]:
        return self._data("text/html")

    @property
    def text(self) -> list[str]:
        return self._data("text/plain")

    @property
    def printed(self) -> str:
        return "".join(each.text for each in self.outputs if each.output_type == "stream")

    @property
    def error(self) -> str:
        """The traceback, with the colours of a terminal."""
        found = [each for each in self.outputs if each.output_type == "error"]
        return "\n".join(line for each in found for line in each.traceback)


def execute(cells: Sequence[str], folder: Path) -> list[Shown]:
    """Run ``cells`` one after another in ``folder``; an error of one does not end the notebook."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in cells])
    previous = os.environ.get("IPYTHONDIR")
    os.environ["IPYTHONDIR"] = str(folder / "ipython")
    try:
        client = nbclient.NotebookClient(
            book,
            timeout=800,
            kernel_name="python3",
            allow_errors=True,
            resources={"metadata": {"path": str(folder)}},
        )
        client.execute()
    finally:
        if previous is None:
            del os.environ["IPYTHONDIR"]
        else:
            os.environ["IPYTHONDIR"] = previous
    return [Shown(each.outputs) for each in book.cells]
