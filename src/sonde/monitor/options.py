"""What a guard is asked to do: its options, checked once."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, cast, get_args

from sonde.core.errors import UsageError

if TYPE_CHECKING:
    from sonde.monitor.expression import TriggerExpression

OnTrigger = Literal["continue", "skip", "stop", "pause"]
DEFAULT_DIRECTORY: Final = "sonde_steps"
DEFAULT_KEEP: Final = 3
MOST_SNAPSHOT_STEPS: Final = 1000


@dataclass(frozen=True, slots=True)
class GuardOptions:
    """``directory`` gets the signals and the captured steps, at most ``keep`` of them.

    ``snapshot_every``: copy weights and optimizer state to host memory every so many steps;
    ``repeat_every``: execute every so many steps a second time and compare; 0: never.
    ``optimizer_state``: keep that of the optimizer in captured steps. Paths are shown relative to
    ``started_in``, unless the program has left that directory.
    """

    directory: Path
    keep: int = DEFAULT_KEEP
    on_trigger: OnTrigger = "continue"
    triggers: tuple[TriggerExpression, ...] = ()
    snapshot_every: int = 0
    repeat_every: int = 0
    optimizer_state: bool = False
    started_in: Path = field(default_factory=Path.cwd)


def guard_options(
    directory: str | os.PathLike[str] = DEFAULT_DIRECTORY,
    *,
    keep: int = DEFAULT_KEEP,
    on_trigger: str = "continue",
    triggers: Iterable[str] = (),
    snapshot_every: int = 0,
    repeat_every: int = 0,
    optimizer_state: bool = False,
) -> GuardOptions:
    """Check the options that a user gave; UsageError for the first that cannot be."""
    from sonde.monitor.expression import parse_trigger  # needs numpy: not at the start

    if on_trigger not in get_args(OnTrigger):
        raise UsageError(
            f"on_trigger must be one of {', '.join(get_args(OnTrigger))} (got {on_trigger!r})",
            slug="guard-option",
        )
    if not _is_count(keep):
        raise UsageError(
            f"keep must be the number of captured steps to keep (got {keep!r})",
            slug="guard-option",
        )
    if not _is_count(snapshot_every) or snapshot_every > MOST_SNAPSHOT_STEPS:
        raise UsageError(
            f"snapshot_every must be a number of steps up to {MOST_SNAPSHOT_STEPS} "
            f"(got {snapshot_every!r})",
            slug="guard-option",
        )
    if not _is_count(repeat_every):
        raise UsageError(
            f"repeat_every must be a number of steps (got {repeat_every!r})", slug="guard-option"
        )
    texts = (triggers,) if isinstance(triggers, str) else tuple(triggers)
    place = Path(directory).absolute()
    _check_directory(place)
    expressions = tuple(map(parse_trigger, texts))
    action = cast(OnTrigger, on_trigger)
    return GuardOptions(
        place, keep, action, expressions, snapshot_every, repeat_every, bool(optimizer_state)
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _check_directory(place: Path) -> None:
    """Raise unless a directory is or can be made at ``place``."""
    known = place
    while not os.path.lexists(known) and known != known.parent:
        known = known.parent
    if not known.is_dir():
        raise UsageError(
            f"the guard cannot write to {place}: {known} is not a directory", slug="guard-directory"
        )
    try:
        # Permissions do not tell: nothing can be made in /proc, not even by root.
        probe = known / f".sonde_{os.getpid()}"
        os.mkdir(probe)
        os.rmdir(probe)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):  # A disk may have room again later.
            raise UsageError(
                f"the guard cannot write to {place}: no directory can be made in {known}: "
                f"{error.strerror or error}",
                slug="guard-directory",
            ) from None
