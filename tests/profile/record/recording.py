"""A recorder round a training in this process, wired as the command wires it."""

from contextlib import AbstractContextManager

from sonde.adapters.torch.eager.naming.source_lines import is_user_file
from sonde.cli import profile_run
from sonde.profile.places import Places
from sonde.profile.record.recorder import ProfileRecorder
from sonde.profile.record.window import parse_window

PLACES = Places(is_user_file)


def recording(
    steps: str, *, stops: bool = False, wants_memory: bool = True, said: list[str] | None = None
) -> AbstractContextManager[ProfileRecorder]:
    say = (said if said is not None else []).append
    return profile_run.recording(
        parse_window(steps), stops=stops, wants_memory=wants_memory, say=say
    )
