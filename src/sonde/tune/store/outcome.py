"""How a trial ended, as stored in the study.

Optuna has the states complete, pruned and failed. A diverged trial is pruned there, with its ending
in the user attribute ``sonde:outcome``. A failed trial without that attribute was interrupted: the
search was killed, and the values are tried again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optuna import Trial
    from optuna.study import StudyDirection
    from optuna.trial import FrozenTrial

Ending = Literal["finished", "pruned", "diverged", "failed", "timeout", "surplus"]
State = Literal[
    "waiting", "running", "finished", "pruned", "diverged", "failed", "timeout", "interrupted"
]

OUTCOME = "sonde:outcome"
"""How the trial ended: ``ending``, ``seconds``, ``command``, ``reason``, ``origin``."""
OWNER = "sonde:owner"
"""The process that runs the trial, and its last heartbeat."""
ATTEMPT = "sonde:attempt"
DIRECTORY = "sonde:directory"


def record(trial: Trial, ending: Ending, **facts: Any) -> None:
    """Store how a trial ended; call it before ``study.tell``, so that finished trials have it."""
    kept = {name: value for name, value in facts.items() if value not in (None, "")}
    trial.set_user_attr(OUTCOME, {"ending": ending, **kept})


def facts_of(trial: FrozenTrial) -> dict[str, Any]:
    """What `record` stored; empty if the trial was interrupted."""
    found = trial.user_attrs.get(OUTCOME)
    return found if isinstance(found, dict) else {}


def state_of(trial: FrozenTrial) -> State | Literal["surplus"]:
    """The state of a trial, as shown to users."""
    from optuna.trial import TrialState

    said: Any = facts_of(trial).get("ending")
    if trial.state == TrialState.RUNNING:
        return "running"
    if trial.state == TrialState.WAITING:
        return "waiting"
    if trial.state == TrialState.COMPLETE:
        return "finished"
    if trial.state == TrialState.PRUNED:
        return "diverged" if said == "diverged" else "pruned"
    return said if said in ("failed", "timeout", "surplus") else "interrupted"


def is_bad_region(trial: FrozenTrial) -> bool:
    """Whether the trial diverged, crashed or ran out of time."""
    return state_of(trial) in ("diverged", "failed", "timeout")


def counts(trial: FrozenTrial) -> bool:
    """Whether an ended trial counts for a limit on the number of trials."""
    return state_of(trial) not in ("interrupted", "surplus", "waiting", "running")


def best_trial(trials: Sequence[FrozenTrial], direction: StudyDirection) -> FrozenTrial | None:
    """The finished trial with the best value; of equals, the earliest."""
    from optuna.study import StudyDirection
    from optuna.trial import TrialState

    complete = [one for one in trials if one.state == TrialState.COMPLETE and one.value is not None]
    if not complete:
        return None
    sign = -1.0 if direction == StudyDirection.MAXIMIZE else 1.0
    return min(complete, key=lambda one: (sign * float(one.value or 0.0), one.number))
