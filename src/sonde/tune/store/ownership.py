"""Who runs a trial: a search may be killed at any time and on any machine.

Every trial names its owner (host, boot, process) from its first moment; one whose owner is gone is
taken back and tried again.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import OptunaError
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from sonde.tune.store.outcome import ATTEMPT, OWNER

STALE_SECONDS = 600.0
"""After how long without a sign of life a trial of another machine is taken back."""
MOST_ATTEMPTS = 3
"""How often the same values are tried when the search dies with them."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that runs a trial; the boot and start time tell it from a later namesake."""

    host: str
    boot: str
    pid: int
    started: str

    def is_gone(self) -> bool:
        """Whether the process is known not to run any more."""
        if self.host != socket.gethostname():
            return False
        return self.boot != boot_id() or self.started != process_start(self.pid)


def this_process() -> Owner:
    pid = os.getpid()
    return Owner(socket.gethostname(), boot_id(), pid, process_start(pid))


@cache
def boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def process_start(pid: int) -> str:
    """When a process started, in ticks since boot; empty if it does not run."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    fields = text.rpartition(")")[2].split()
    return "" if fields[0] in ("Z", "X") else fields[19]


def ask_signed(study: Study) -> optuna.Trial:
    """A new trial, or the first that waits; it names an owner from its first moment.

    Otherwise a search that dies between asking and signing would leave a trial without an owner.
    """
    if not study.get_trials(deepcopy=False, states=(TrialState.WAITING,)):
        study.enqueue_trial({}, user_attrs={OWNER: signature()})
    trial = study.ask()
    if not _is_mine(trial.user_attrs.get(OWNER)):
        trial.set_user_attr(OWNER, signature())
    return trial


def signature() -> dict[str, Any]:
    """This process as the owner of a trial, with a sign of life."""
    return {**asdict(this_process()), "alive": time.time()}


def _is_mine(owner: Any) -> bool:
    return isinstance(owner, dict) and _owner(owner) == this_process()


def _owner(content: dict[str, Any]) -> Owner:
    return Owner(content["host"], content["boot"], content["pid"], content["started"])


def recover(study: Study) -> list[FrozenTrial]:
    """Take back the trials whose owner is gone and queue their values again.

    The result are the trials taken back. Several searches may do this at once: each trial is
    taken by one of them.
    """
    taken = []
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        if not is_abandoned(trial):
            continue
        with contextlib.suppress(OptunaError, ValueError, RuntimeError):  # another was faster
            study.tell(trial.number, state=TrialState.FAIL)
            taken.append(trial)
            attempt = int(trial.user_attrs.get(ATTEMPT, 1))
            if trial.params and attempt < MOST_ATTEMPTS:
                study.enqueue_trial(
                    trial.params, user_attrs={OWNER: signature(), ATTEMPT: attempt + 1}
                )
    return taken


def is_abandoned(trial: FrozenTrial) -> bool:
    """Whether a running trial's owner is gone, or has been silent for too long."""
    owner = trial.user_attrs.get(OWNER)
    if not isinstance(owner, dict):
        return False  # another tool's trial
    if _owner(owner).is_gone():
        return True
    is_here = owner["host"] == socket.gethostname()
    return not is_here and time.time() - float(owner["alive"]) > STALE_SECONDS
