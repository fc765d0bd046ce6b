"""Operators to use in a network: ``Print``, which works in compiled code too.

Create them in ``__init__`` and call them in ``forward``. torch is imported at the first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sonde.core.mindspore.absent_names import absent

if TYPE_CHECKING:
    from sonde.adapters.torch.printing.calls import Print, print, print_grad

__all__ = ["Print", "print", "print_grad"]


def __getattr__(name: str) -> Any:
    absent(__name__, name)
    if name not in __all__:
        from sonde.core.text.missing_name import missing_name

        raise missing_name(__name__, name, __all__)
    return getattr(import_module("sonde.adapters.torch.printing.calls"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
