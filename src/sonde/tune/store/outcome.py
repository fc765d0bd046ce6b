"""How a trial ended, and what of it is kept in the study.

Optuna knows complete, pruned and failed. A diverged trial is pruned there and says so in the user
attribute ``sonde:outcome``; a trial that has failed without that attribute was interrupted: the
search was killed, and the trial will be tried again.
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
"""How the trial ended (``ending``, ``seconds``, ``command``, ``reason``, ``origin``): one write."""
OWNER = "sonde:owner"
"""Who runs the trial, and when it was last known to."""
ATTEMPT = "sonde:attempt"
DIRECTORY = "sonde:directory"


def record(trial: Trial, ending: Ending, **facts: Any) -> None:
    """Note how a trial ended, before it is told to the study: what is told is whole."""
    kept = {name: value for name, value in facts.items() if value not in (None, "")}
    trial.set_user_attr(OUTCOME, {"ending": ending, **kept})


def facts_of(trial: FrozenTrial) -> dict[str, Any]:
    """What was recorded of a trial; nothing if it was interrupted."""
    found = trial.user_attrs.get(OUTCOME)
    return found if isinstance(found, dict) else {}


def state_of(trial: FrozenTrial) -> State | Literal["surplus"]:
    """What became of a trial, in the words people see."""
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
    """Whether the trial's values led nowhere: it diverged, crashed or ran out of time."""
    return state_of(trial) in ("diverged", "failed", "timeout")


def counts(trial: FrozenTrial) -> bool:
    """Whether a trial is one of those a limit on trials speaks of, once it is finished."""
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
