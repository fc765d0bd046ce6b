"""Marks each trial with the process that runs it, and requeues trials whose process is gone.

A search may be killed at any time and on any machine. Optuna's own heartbeat exists only for
relational databases and notices a dead process only after a grace period.
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
"""A trial of another machine is requeued after so long without a heartbeat."""
MOST_ATTEMPTS = 3
"""How often the same values are tried when the search dies with them."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that runs a trial; boot and start time identify it when its pid is reused."""

    host: str
    boot: str
    pid: int
    started: str

    def is_gone(self) -> bool:
        """Whether the process is known to have ended."""
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
    """The first waiting trial, or a new one, with this process as its owner.

    A new trial is queued with its owner: a search that died between asking and signing would leave
    a trial without an owner.
    """
    if not study.get_trials(deepcopy=False, states=(TrialState.WAITING,)):
        study.enqueue_trial({}, user_attrs={OWNER: signature()})
    trial = study.ask()
    if _owner(trial.user_attrs) != this_process():
        trial.set_user_attr(OWNER, signature())
    return trial


def signature() -> dict[str, Any]:
    """This process as the owner of a trial, with a heartbeat."""
    return {**asdict(this_process()), "alive": time.time()}


def _owner(attributes: dict[str, Any]) -> Owner | None:
    """The owner of a trial; None for a trial of another tool."""
    content = attributes.get(OWNER)
    if not isinstance(content, dict):
        return None
    return Owner(content["host"], content["boot"], content["pid"], content["started"])


def requeue(study: Study, trial: FrozenTrial | optuna.Trial, *, is_attempt: bool) -> None:
    """Fail a running trial and queue its values again.

    ``is_attempt``: the failed trial counts as one of the `MOST_ATTEMPTS` with these values.
    """
    study.tell(trial.number, state=TrialState.FAIL)
    attempt = int(trial.user_attrs.get(ATTEMPT, 1)) + is_attempt
    if trial.params and attempt <= MOST_ATTEMPTS:
        study.enqueue_trial(trial.params, user_attrs={OWNER: signature(), ATTEMPT: attempt})


def recover(study: Study) -> list[FrozenTrial]:
    """Requeue the trials whose owner is gone, and return them.

    Several searches may do this at once: each trial is requeued by one of them.
    """
    taken = []
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        # Optuna raises if another search was faster.
        with contextlib.suppress(OptunaError, ValueError, RuntimeError):
            if is_abandoned(trial):
                requeue(study, trial, is_attempt=True)
                taken.append(trial)
    return taken


def is_abandoned(trial: FrozenTrial) -> bool:
    """Whether a running trial's owner is gone, or has sent no heartbeat for too long."""
    owner = _owner(trial.user_attrs)
    if owner is None or owner.host == socket.gethostname():
        return owner is not None and owner.is_gone()
    return time.time() - float(trial.user_attrs[OWNER]["alive"]) > STALE_SECONDS
