"""The names that users know of notebook cells.

A kernel compiles each cell under the name of a file that does not exist, such as
``/tmp/ipykernel_7/3215.py``. The notebook extension registers what the notebook shows instead:
``In[3]``.
"""

from __future__ import annotations

from collections.abc import Callable

_registered: list[Callable[[str], str | None]] = []


def register_cell_names(name_of: Callable[[str], str | None]) -> Callable[[], None]:
    """Name files by ``name_of``, which returns None for a file that is no cell. The returned
    function ends that, and may be called twice."""
    _registered.append(name_of)

    def end() -> None:
        if name_of in _registered:
            _registered.remove(name_of)

    return end


def shown_file(file: str) -> str:
    """``In[3]`` for a cell of a notebook, ``file`` for any other file."""
    for name_of in _registered:
        name = name_of(file)
        if name is not None:
            return name
    return file
