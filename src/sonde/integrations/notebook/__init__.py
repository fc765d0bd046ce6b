"""``%load_ext sonde``: the magics ``%%sonde`` and ``%sonde_page``, and tensors as HTML.

IPython is imported by IPython itself, which calls `load_ipython_extension`; a program that imports
Sonde does not import it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sonde.core.errors import SondeError
from sonde.core.text.notebook_cells import register_cell_names
from sonde.tensor_display import shown_tensor

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_undo: list[Callable[[], object]] = []


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Add the magics to ``shell``, and show torch's tensors as HTML."""
    from sonde.integrations.notebook.cell_run import cell_name
    from sonde.integrations.notebook.magics import SondeMagics

    unload_ipython_extension(shell)
    shell.register_magics(SondeMagics(shell))
    formatter = shell.display_formatter.formatters["text/html"]
    formatter.for_type_by_name("torch", "Tensor", _tensor_html)
    _undo.append(lambda: _pop(formatter))
    _undo.append(register_cell_names(lambda file: cell_name(shell, file)))


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Remove what `load_ipython_extension` added."""
    from sonde.integrations.notebook.page_frame import end_pages

    if _undo:
        for kind, name in (("cell", "sonde"), ("line", "sonde_page")):
            shell.magics_manager.magics[kind].pop(name, None)
    while _undo:
        _undo.pop()()
    end_pages()


def _pop(formatter: Any) -> None:
    formatter.pop("torch.Tensor", None)
    for kind in [each for each in formatter.type_printers if each.__name__ == "Tensor"]:
        formatter.pop(kind, None)  # Where IPython has found the class by its name.


def _tensor_html(tensor: Any) -> str | None:
    """The HTML of a tensor at the end of a cell; None (the plain text alone) for a single number
    and for a tensor that has no statistics."""
    try:
        return None if tensor.numel() < 2 else shown_tensor(tensor)._repr_html_()
    except SondeError:
        return None
