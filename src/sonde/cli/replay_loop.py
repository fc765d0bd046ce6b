"""The program that ``sonde replay --debug`` debugs: executes a captured step again and again."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from sonde.cli.step_modules import ModuleOptions, found_modules, module_options, open_step
from sonde.core.errors import SondeError
from sonde.core.text.problem_line import ProblemLine
from sonde.dump.layout import RankLayout
from sonde.dump.reading.side_files import read_findings
from sonde.logs import say, say_errors


@click.command()
@click.argument("directory")
@module_options
def replay_loop(directory: str, **given: Any) -> tuple[str, ModuleOptions]:
    """Parse the words; the loop runs outside click, which handles interruptions by itself."""
    return directory, ModuleOptions(**given)


def replayed_program(words: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The program and arguments to show for this one: the user's own, whose step ``words`` name."""
    directory, options = replay_loop.main(list(words), "sonde replay", standalone_mode=False)
    manifest = open_step(directory, options).manifest
    program = manifest.program
    name = program.module or Path(program.file or directory).name
    return f"replay of {name}", (*program.arguments, f"(step {manifest.step})")


def execute_forever(directory: str, options: ModuleOptions) -> None:
    """Execute the step until the debugger ends this process."""
    step = open_step(directory, options)
    from sonde.adapters.torch.replay.questions.step_replay import StepReplay, check_ran
    from sonde.adapters.torch.replay.storage.environment import with_flags
    from sonde.adapters.torch.replay_dump import execute_observed

    show_findings(step.path)
    with found_modules(step, options) as found, with_flags(step.manifest.flags):
        record = StepReplay(step, found.modules).record()
        while True:
            check_ran(execute_observed(record), step)


def show_findings(step: Path) -> None:
    """Show what a diagnosis of the training found from which the step was captured, if its
    directory, or that of its dump, has a ``findings.json``."""
    from sonde.adapters.torch.attach import running_debugger
    from sonde.diagnosis.wire_form import diagnosis_view

    files = [RankLayout(each).findings for each in list(step.resolve().parents)[:2]]
    file = next((each for each in files if each.is_file()), None)
    debugging = running_debugger()
    if file is None or debugging is None:
        return
    try:
        stored = read_findings(file)
    except SondeError as error:
        say(ProblemLine.about(error, "the findings are not shown: "))
        return
    view = diagnosis_view(stored.findings, stored.steps, is_over=True)
    debugging.debugger.session.report_diagnosis(view)


def main(words: Sequence[str]) -> int:
    directory, options = replay_loop.main(list(words), "sonde replay", standalone_mode=False)
    try:
        execute_forever(directory, options)
    except SondeError as error:
        say_errors(str(error))
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
