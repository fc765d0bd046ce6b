"""The program that ``sonde replay --debug`` debugs: executes a captured step again and again."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from sonde.cli.step_modules import ModuleOptions, found_modules, module_options, open_step
from sonde.core.errors import SondeError
from sonde.logs import say_errors


@click.command()
@click.argument("directory")
@module_options
def replay_loop(directory: str, **given: Any) -> tuple[str, ModuleOptions]:
    """Parse the words; the loop runs outside click, which handles interruptions by itself."""
    return directory, ModuleOptions(**given)


def execute_forever(directory: str, options: ModuleOptions) -> None:
    """Execute the step until the debugger ends this process."""
    step = open_step(directory, options)
    from sonde.adapters.torch.replay.questions.step_replay import StepReplay, check_ran
    from sonde.adapters.torch.replay.storage.environment import with_flags
    from sonde.adapters.torch.replay_dump import execute_observed

    with found_modules(step, options) as found, with_flags(step.manifest.flags):
        record = StepReplay(step, found.modules).record()
        while True:
            check_ran(execute_observed(record), step)


def main(words: Sequence[str]) -> int:
    directory, options = replay_loop.main(list(words), "sonde replay", standalone_mode=False)
    try:
        execute_forever(directory, options)
    except SondeError as error:
        say_errors(str(error))
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
