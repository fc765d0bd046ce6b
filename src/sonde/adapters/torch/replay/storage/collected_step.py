"""The contents of a captured step before they are on the disk."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from sonde.adapters.torch.replay.storage.copy_memory import CopyMemory
from sonde.adapters.torch.replay.storage.tensor_files import Weights, write_tensors
from sonde.core.files.atomic_file import write_whole
from sonde.replay import layout
from sonde.replay.manifest import Manifest, encode_manifest


@dataclass(frozen=True, slots=True)
class CollectedStep:
    """The contents of the files of a captured step."""

    step: int
    rank: int
    manifest: Manifest
    pickles: dict[str, bytes]
    weights: Weights

    def copied(self, memory: CopyMemory) -> CollectedStep:
        """The same with copies of the tensors, so that it can be written while the program goes on,
        in another thread."""
        return replace(self, weights=memory.copy(self.weights))

    def write(self, place: Path) -> None:
        """Write the files into the directory ``place``."""
        for name, data in self.pickles.items():
            if data:
                write_whole(place / name, data)
        write_tensors(place, self.weights)
        write_whole(place / layout.MANIFEST, encode_manifest(self.manifest))
