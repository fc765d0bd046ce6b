"""A recorder round a training in this process, wired as the command wires it."""

import contextlib
from collections.abc import Iterator

from sonde.adapters.torch.sources import is_user_file
from sonde.cli.profile_run import install_hooks, naming
from sonde.profile.places import Places
from sonde.profile.recorder import Recorder
from sonde.profile.sampler import Sampler
from sonde.profile.window import parse_window
from sonde.profile.witness import Witness

PLACES = Places(is_user_file)


@contextlib.contextmanager
def recording(
    steps: str, *, stops: bool = False, wants_memory: bool = True, said: list[str] | None = None
) -> Iterator[Recorder]:
    witness = Witness(PLACES)
    recorder = Recorder(
        parse_window(steps),
        witness=witness,
        sampler=Sampler(PLACES),
        stops=stops,
        wants_memory=wants_memory,
        say=(said if said is not None else []).append,
    )
    with contextlib.ExitStack() as undo:
        undo.enter_context(witness.attached())
        undo.enter_context(naming(recorder))
        install_hooks(recorder, undo)
        recorder.start()
        try:
            yield recorder
        finally:
            recorder.close()
