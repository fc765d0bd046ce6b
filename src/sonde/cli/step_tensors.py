"""The program that computes the tensors of a captured step when a dump is read: executes the step
under the ordinary dump, as a configuration file says. See ``dump/reading/captured_rank``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from sonde.capture.config import load_config
from sonde.cli.step_modules import ModuleOptions, found_modules, open_step
from sonde.core.errors import SondeError


def compute(directory: str, settings: str) -> dict[str, object]:
    """Dump the captured step in ``directory`` as the file ``settings`` says; returns how many
    results were compared with those of the training, and how many differ."""
    config = load_config(settings, os.environ)
    options = ModuleOptions()
    step = open_step(directory, options)
    from sonde.adapters.torch.replay.questions.step_replay import StepReplay
    from sonde.adapters.torch.replay.storage.environment import with_flags
    from sonde.adapters.torch.replay_dump import dump_step

    with found_modules(step, options) as found, with_flags(step.manifest.flags):
        done = dump_step(StepReplay(step, found.modules), config)
    return {
        "compared": done.compared,
        "differences": len(done.differences),
        "optimizer_problem": done.optimizer_problem,
    }


def main(words: Sequence[str]) -> int:
    """``words``: the captured step, the configuration file, and the file for the result."""
    directory, settings, result = words
    try:
        answer = compute(directory, settings)
    except SondeError as error:
        answer = {"error": error.message}
    Path(result).write_text(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
