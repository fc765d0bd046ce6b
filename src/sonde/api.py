"""The functions that programs call as ``sonde.<name>``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sonde.capture.config import CaptureConfig, load_config
from sonde.core.errors import UsageError

if TYPE_CHECKING:
    from torch import nn

    from sonde.adapters.torch.diagnosis.session import TrainingDiagnosis
    from sonde.core.statistics import Statistics
    from sonde.monitor.reading import SignalTable


@contextmanager
def capture(
    config: CaptureConfig | str | os.PathLike[str],
    *,
    step_by: str = "optimizer",
    observe: Iterable[str] = (),
) -> Iterator[None]:
    """Observe the part of a program run in this block, as the dump configuration says.

    ``config`` is the path of a JSON file, or a CaptureConfig. Steps are counted from the start of
    the block and end at optimizer steps, or with ``step_by="manual"`` at ``sonde.step()``.
    ``observe``: "evaluation" and "data" add the ops of evaluations and of data loaders to the
    steps, to which they do not belong otherwise.
    """
    from sonde import logs
    from sonde.adapters.torch.attach import checked_observe, checked_step_by
    from sonde.adapters.torch.step_dump.dumping import start_capture

    logs.configure()
    if isinstance(config, str | os.PathLike):
        config = load_config(Path(config), os.environ)
    elif not isinstance(config, CaptureConfig):
        raise UsageError(
            "sonde.capture takes the path of a dump configuration, or a CaptureConfig, not "
            f"{type(config).__name__}",
            slug="capture-config",
        )
    how = checked_step_by(step_by)
    with start_capture(config, starts_at_once=True, step_by=how, observe=checked_observe(observe)):
        yield


@contextmanager
def debug(
    host: str | None = None,
    port: int | None = None,
    *,
    pause: bool | None = None,
    step_by: str = "optimizer",
    observe: Iterable[str] = (),
) -> Iterator[None]:
    """Debug the part of a program run in this block, from the page or with ``sonde ctl``.

    Connects to the server that ``SONDE_DEBUGGER_HOST`` and ``SONDE_DEBUGGER_PORT`` name, or
    ``host`` and ``port``; without any of them to a server of this user on this machine, which is
    started if there is none and then ends with the program. ``pause``: whether to pause before the
    first step; None: as the server says. ``observe`` is as in `capture`. When a user terminates the
    training in the debugger, `sonde.debugger.Terminated`, a KeyboardInterrupt, is raised in the
    training.
    """
    from sonde import logs
    from sonde.adapters.torch.attach import checked_observe, checked_step_by
    from sonde.adapters.torch.debug_calls import debugged

    logs.configure()
    how = checked_step_by(step_by)
    with debugged(host, port, pause=pause, step_by=how, observe=checked_observe(observe)):
        yield


def breakpoint() -> None:
    """Pause here until the page or ``sonde ctl`` continues the training.

    A program that is not connected to a debugger yet connects here, as with ``sonde.debug()``, and
    stays connected until it ends.
    """
    import sys

    from sonde.adapters.torch.debug_calls import stop_here

    frame = sys._getframe(1)
    stop_here(f"sonde.breakpoint() at {frame.f_code.co_filename}:{frame.f_lineno}")


@contextmanager
def guard(
    directory: str | os.PathLike[str] = "sonde_steps",
    *,
    keep: int = 3,
    on_trigger: str = "continue",
    triggers: Iterable[str] = (),
    snapshot_every: int = 0,
    repeat_every: int = 0,
    optimizer_state: bool = False,
) -> Iterator[None]:
    """Monitor the training in this block, and keep the step that goes wrong.

    The options are those of ``sonde run --guard`` (docs/guard.md): ``keep`` at most so many steps
    in ``directory``; ``on_trigger``: "continue", "skip" the optimizer's step, "stop" (raises
    `sonde.monitor.GuardStopped`, a KeyboardInterrupt) or "pause" for the debugger; ``triggers``:
    expressions such as ``"grad_norm > 10 * median(grad_norm, 100)"``.
    """
    from sonde import logs
    from sonde.adapters.torch.monitor import guarding
    from sonde.monitor.options import guard_options

    logs.configure()
    options = guard_options(
        directory,
        keep=keep,
        on_trigger=on_trigger,
        triggers=triggers,
        snapshot_every=snapshot_every,
        repeat_every=repeat_every,
        optimizer_state=optimizer_state,
    )
    with guarding.guard(options):
        yield


@contextmanager
def diagnose(
    *,
    steps: int | None = None,
    until_finding: bool = False,
    ignore: str | Iterable[str] = (),
    html: str | os.PathLike[str] | None = None,
    sarif: str | os.PathLike[str] | None = None,
    prints: bool = True,
) -> Iterator[TrainingDiagnosis]:
    """Collect evidence of the training in this block, and say why it fails.

    The options are those of ``sonde diagnose`` (docs/diagnosis.md). The value has ``findings``, a
    list of `sonde.diagnosis.Finding`: of the evidence so far while the block runs, the final ones
    after it. Findings are printed, as soon as they are established and at the end, unless
    ``prints`` is False. Where ``steps`` or ``until_finding`` ends the training, the program goes on
    after the block.
    """
    from sonde import logs
    from sonde.adapters.torch.diagnosis.session import diagnosing
    from sonde.diagnosis.options import diagnosis_options

    logs.configure()
    options = diagnosis_options(
        steps=steps, until_finding=until_finding, ignore=ignore, html=html, sarif=sarif
    )
    with diagnosing(options, prints=prints) as diagnosis:
        yield diagnosis


def trigger(reason: str = "") -> None:
    """Keep the running step; ``reason`` is written with it. Without a guard it does nothing."""
    import sys

    guarding = sys.modules.get("sonde.adapters.torch.monitor.guarding")
    if guarding is not None:
        guarding.trigger(str(reason))


def signals(directory: str | os.PathLike[str], rank: int | None = None) -> SignalTable:
    """The signals of the last 1,000 steps of a guarded training, as numpy arrays.

    ``directory`` is that of the guard; ``rank`` the rank, without it the lowest there is.
    ``signals(DIR)["loss"]`` is a column, ``signals(DIR).to_pandas()`` a DataFrame.
    """
    from sonde.monitor.reading import read_signals

    return read_signals(Path(directory), rank)


def query(directory: str | os.PathLike[str], sql: str) -> Any:
    """The result of a SQL query over the statistics of all steps, as a pandas DataFrame.

    ``directory`` is that of ``sonde run --stats``, whose training may still be running. The views
    ``tensors``, ``series(op, statistic)``, ``first_nonfinite``, ``growth(window)``,
    ``rank_outliers(step)`` and ``layers(step)`` are described in docs/query.md.
    """
    from sonde.trends.database import TrendDatabase

    database = TrendDatabase(Path(directory))
    try:
        return database.frame(sql)
    finally:
        database.close()


def set_dump(
    target: nn.Module | type[nn.Module] | Callable[..., object] | str, enabled: bool = True
) -> None:
    """Switch the dump of a module, or of ops by name, on or off; for ``dump_mode: 2``.

    A module selects all ops inside it, forward and backward; a class of modules (``nn.Linear``)
    all modules of this class; a function of torch (``torch.relu``) the ops that compute it. A text
    is a pattern as in ``kernels`` (docs/patterns.md), such as ``"Adam"`` for the ops of an
    optimizer. Call it before or during a capture.
    """
    from sonde.adapters.torch import attach
    from sonde.core.arguments import check_bool

    attach.set_dump(target, enabled=check_bool(enabled, "enabled", "set_dump"))


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
    randomness than this function, and reports what it could not remove.
    """
    from sonde.adapters.torch.determinism import switch as determinism

    determinism.set_seed(seed)


def statistics(tensor: Any) -> Statistics:
    """Print a line about a torch tensor or a numpy array, and return its summary numbers.

    ``docs/statistics.md`` says what each number means. The tensor is not changed, and a running
    capture does not observe the call. Masked elements of a numpy array are left out. Raises
    UsageError for a tensor without values (on the meta device), SondeError for complex numbers,
    which have no order.
    """
    from sonde.core.statistics import describe
    from sonde.tensor_display import measured

    found, dtype = measured(tensor)
    print(describe(found, dtype, tensor.shape))
    return found
