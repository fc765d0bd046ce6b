"""``sonde verify``: does the trigger of a captured step still fire with the changed code?"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from sonde.cli.json_output import json_file_option, json_option, write_document
from sonde.cli.own_option import own_option
from sonde.cli.script import run_program
from sonde.cli.step_modules import ModuleOptions, found_modules, module_options, open_step
from sonde.core.errors import UsageError
from sonde.core.text.problem_line import ProblemLine
from sonde.core.text.terminal_text import printable
from sonde.logs import say
from sonde.replay.errors import ReplayError
from sonde.replay.judgement import Outcome, still_fires, unjudged_reason

if TYPE_CHECKING:
    from sonde.adapters.torch.replay.storage.captured_step import CapturedStep

FIXED, STILL_THERE = 0, 1
_EXECUTIONS = 3
"""Of a step that was kept because it is not deterministic."""

EPILOG = """\b
Examples:
  sonde verify sonde_steps/step_412.rank_0                        the network's code was changed
  sonde verify sonde_steps/step_412.rank_0 -- train.py --lr 1e-4  the script was changed
  sonde verify sonde_steps --module models:make_model

\b
Exit codes: 0 fixed; 1 still there; 2 it could not be executed.
"""


class VerifyCommand(click.Command):
    """Passes everything after ``--`` to the program."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ours, theirs = args, []
        if "--" in args:
            at = args.index("--")
            ours, theirs = args[:at], args[at + 1 :]
            if not theirs:
                raise UsageError("no program after --", slug="usage")
        rest = super().parse_args(ctx, ours)
        ctx.params["program"] = tuple(theirs)
        return rest


@click.command(cls=VerifyCommand, epilog=EPILOG)
@click.argument("directory", metavar="STEP")
@module_options
@json_option
@json_file_option
@own_option
def verify(
    directory: str,
    factory: str | None,
    script: str | None,
    runs_setup: bool,
    trust: bool,
    as_json: bool,
    json_file: str | None,
    program: tuple[str, ...],
) -> int:
    """Execute the captured step STEP with the code as it is now: does its trigger still fire?

    Without a program, the network is found as by sonde replay. With one (after --), the program
    runs up to its first step, in which it gets the weights, the random states and the batch of the
    captured step; it is ended before its optimizer steps.
    """
    options = ModuleOptions(factory, script, runs_setup, trust)
    if program and options.words() not in ([], ["--trust"]):
        raise UsageError(f"{options.words()[0]} cannot be combined with a program", slug="usage")
    step = open_step(directory, options)
    outcome = _of_program(step, program) if program else _of_network(step, options)
    fires = still_fires(step.manifest, outcome, step.path)
    trigger = step.manifest.trigger
    text = "a loss or gradient was not finite" if trigger is None else trigger.text
    if fires is None:
        reason = unjudged_reason(step.manifest, outcome)
        raise ReplayError(f"the trigger ({text}) cannot be judged: {reason}", slug="replay-judge")
    verdict = "still there" if fires else "fixed"
    if not as_json:
        was = f"step {step.manifest.step} was kept because {text}"
        print(printable(f"{verdict}: {outcome.text()} ({was})"))
    document = {"verdict": verdict, "trigger": text, "loss": outcome.loss}
    document["grad_norm"] = outcome.grad_norm
    write_document(document, as_json=as_json, json_file=json_file)
    return STILL_THERE if fires else FIXED


def _of_network(step: CapturedStep, options: ModuleOptions) -> Outcome:
    from sonde.adapters.torch.replay.execution import execute
    from sonde.adapters.torch.replay.questions.changed_records import without_spoiled_clipping
    from sonde.adapters.torch.replay.questions.outcomes import outcome_of
    from sonde.adapters.torch.replay.questions.step_replay import StepReplay, check_ran
    from sonde.adapters.torch.replay.storage.environment import with_flags

    with found_modules(step, options) as found, with_flags(step.manifest.flags):
        replaying = StepReplay(step, found.modules)
        record = without_spoiled_clipping(replaying.record())
        done = execute(record)
        check_ran(done, step)
        outcome = outcome_of(record, done)
        trigger = step.manifest.trigger
        if trigger is not None and trigger.kind == "nondeterministic":
            verdict = replaying.is_deterministic(_EXECUTIONS)
            outcome = replace(outcome, is_deterministic=verdict.rule == "replay-deterministic")
        return outcome


def _of_program(step: CapturedStep, program: tuple[str, ...]) -> Outcome:
    from sonde.adapters.torch.replay.questions.verification import Verification, VerifyDone
    from sonde.adapters.torch.replay.storage.environment import with_flags

    module, words = None, list(program)
    if words[0] == "-m" and len(words) > 1:
        module, words = words[1], words[2:]
    elif not os.path.exists(words[0]):
        raise UsageError(f"script {words[0]!r} does not exist", slug="program-not-found")
    name = module or words[0]
    watching = Verification(step)
    say(f"running {name} up to the end of its first step")
    with with_flags(step.manifest.flags):
        raised = run_program(module, words, watching.attached)
    if watching.problem is not None:
        raise watching.problem
    if watching.outcome is not None:
        if watching.unused:
            say(
                ProblemLine(
                    f"{watching.unused} tensors that the captured loss was given were not found "
                    f"in {name}: its own were used",
                    slug="verify-labels",
                )
            )
        return watching.outcome
    trigger = step.manifest.trigger
    is_error = raised is not None and not isinstance(raised, SystemExit | VerifyDone)
    if is_error and trigger is not None and trigger.kind == "exception":
        return Outcome(None, 0.0, 0, error=f"{type(raised).__name__}: {raised}")
    why = "it ended" if raised is None else f"{type(raised).__name__}: {raised}"
    raise ReplayError(
        f"{name} did not come to a step of an optimizer with a network of the captured step: {why}",
        slug="setup-failed",
    )
