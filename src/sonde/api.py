"""What a program that uses Sonde calls; ``sonde.<name>`` finds these."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sonde.capture.config import CaptureConfig, load_config
from sonde.core.errors import UsageError

if TYPE_CHECKING:
    from torch import nn

    from sonde.core.statistics import Statistics


@contextmanager
def capture(
    config: CaptureConfig | str | os.PathLike[str], *, step_by: str = "optimizer"
) -> Iterator[None]:
    """Observe the part of a program run in this block, as the dump configuration says.

    ``config`` is the path of a JSON file, or a CaptureConfig. Steps are counted from the start of
    the block and end at optimizer steps, or with ``step_by="manual"`` at ``sonde.step()``.
    """
    from sonde import logs
    from sonde.adapters.torch.attach import attach, checked_step_by

    logs.configure()
    if not isinstance(config, CaptureConfig):
        config = load_config(Path(config), os.environ)
    with attach(config, starts_at_once=True, step_by=checked_step_by(step_by)):
        yield


@contextmanager
def debug(
    host: str | None = None,
    port: int | None = None,
    *,
    pause: bool | None = None,
    step_by: str = "optimizer",
) -> Iterator[None]:
    """Debug the part of a program run in this block, from the page or with ``sonde ctl``.

    Connects to the server that ``SONDE_DEBUGGER_HOST`` and ``SONDE_DEBUGGER_PORT`` name, or
    ``host`` and ``port``; without any of them to one on this machine, which is started if there is
    none and ends with the program. ``pause``: wait before the first step; None: as the server says.
    When somebody ends the training there, `sonde.debugger.Terminated`, a KeyboardInterrupt, is
    raised in it.
    """
    from sonde import logs
    from sonde.adapters.torch.attach import checked_step_by
    from sonde.adapters.torch.debugging_calls import debugged

    logs.configure()
    with debugged(host, port, pause=pause, step_by=checked_step_by(step_by)):
        yield


def breakpoint() -> None:
    """Stop here until somebody at the page, or ``sonde ctl``, lets the training go on.

    A program that is not debugged yet is from here on, as in ``sonde.debug()``.
    """
    import sys

    from sonde.adapters.torch.debugging_calls import stop_here

    frame = sys._getframe(1)
    stop_here(f"{frame.f_code.co_filename}:{frame.f_lineno}")


def set_dump(target: nn.Module | str, enabled: bool = True) -> None:
    """Switch the dump of a module, or of ops by name, on or off; for ``dump_mode: 2``.

    A module stands for all ops inside it, forward and backward. A text is a module's path
    (``encoder.0``) or anything ``kernels`` takes. It may be called before or during a capture.
    """
    from sonde.adapters.torch import attach

    attach.set_dump(target, enabled=enabled)


def step() -> None:
    """End the running step here, in loops whose step is not an optimizer's ``step()``.

    Use it with ``sonde run --step-by manual`` or ``sonde.capture(..., step_by="manual")``;
    outside a capture it does nothing.
    """
    from sonde.adapters.torch import attach

    attach.end_step()


def set_seed(seed: int) -> None:
    """Seed Python's, numpy's and torch's generators; DataLoader workers follow torch's.

    ``seed`` is a whole number from 0 to 2**32 - 1. ``sonde run --deterministic`` removes more
    randomness than that, and says what is left.
    """
    from sonde.adapters.torch import determinism

    determinism.set_seed(seed)


def statistics(tensor: Any) -> Statistics:
    """Print a line about a torch tensor or a numpy array, and return its summary numbers.

    ``docs/statistics.md`` says what each number means. Nothing of the tensor is changed, and a
    capture that runs does not see the call. UsageError for what has no values (a tensor on the
    meta device), SondeError for what has no order (complex numbers).
    """
    import numpy as np

    from sonde import kernels
    from sonde.core.statistics import describe

    if isinstance(tensor, np.ndarray | np.generic):
        found, dtype = kernels.summarize_array(np.asarray(tensor)), tensor.dtype.name
    else:
        found, dtype = _tensor_statistics(tensor)
    print(describe(found, dtype, tensor.shape))
    return found


def _tensor_statistics(tensor: Any) -> tuple[Statistics, str]:
    import sys

    torch = sys.modules.get("torch")
    if torch is None or not isinstance(tensor, torch.Tensor):
        raise UsageError(
            f"statistics takes a torch tensor or a numpy array, not {type(tensor).__name__}",
            slug="statistics-type",
        )
    from sonde.adapters.torch.private import unobserved
    from sonde.adapters.torch.views import TorchView

    with unobserved():
        view = TorchView(tensor, "output", 0, None, None)
        if view.problem is not None:
            raise UsageError(
                f"this tensor has no statistics: {view.problem}", slug="statistics-type"
            )
        return view.statistics(), view.dtype
