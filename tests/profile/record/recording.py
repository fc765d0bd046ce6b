"""A recorder round a training in this process, wired as the command wires it."""

import contextlib
from collections.abc import Iterator

from sonde.adapters.torch.eager.source_lines import is_user_file
from sonde.cli.profile_run import install_hooks, naming
from sonde.profile.places import Places
from sonde.profile.record.object_tracking import ObjectTracker
from sonde.profile.record.recorder import ProfileRecorder
from sonde.profile.record.sampler import Sampler
from sonde.profile.record.window import parse_window

PLACES = Places(is_user_file)


@contextlib.contextmanager
def recording(
    steps: str, *, stops: bool = False, wants_memory: bool = True, said: list[str] | None = None
) -> Iterator[ProfileRecorder]:
    tracker = ObjectTracker(PLACES)
    recorder = ProfileRecorder(
        parse_window(steps),
        tracker=tracker,
        sampler=Sampler(PLACES),
        stops=stops,
        wants_memory=wants_memory,
        say=(said if said is not None else []).append,
    )
    with contextlib.ExitStack() as undo:
        undo.enter_context(tracker.attached())
        undo.enter_context(naming(recorder))
        install_hooks(recorder, undo)
        recorder.start()
        try:
            yield recorder
        finally:
            recorder.close()
