"""A captured step on disk: its manifest, its tensors, its pickles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sonde.adapters.torch import private
from sonde.adapters.torch.replay.kept_tensor import KeptTensor
from sonde.adapters.torch.replay.step_record import StepRecord
from sonde.adapters.torch.replay.storage.object_pickle import read_objects
from sonde.adapters.torch.replay.storage.record_reader import RecordReader
from sonde.adapters.torch.replay.storage.tensor_files import read_tensors
from sonde.replay import layout
from sonde.replay.errors import ReplayError
from sonde.replay.manifest import Manifest, read_manifest
from sonde.replay.ownership import refuse_foreign


class CapturedStep:
    """A captured step on disk. Tensors and pickles are read when they are needed.

    ``trust``: code from the step may be executed although another user could have written it.
    """

    def __init__(self, path: Path, *, trust: bool = False) -> None:
        self.path = layout.find_step(path)
        self.manifest: Manifest = read_manifest(self.path)
        self.trust = trust

    @cached_property
    def tensors(self) -> list[torch.Tensor]:
        with private.unobserved():
            return read_tensors(self.path, self.manifest.tensors)

    def pickled_modules(self) -> list[nn.Module | None]:
        """The modules that were pickled, each with the weights of the step; executes code.

        None for a module that could not be pickled.
        """
        stored = self.manifest.modules
        path = self.path / layout.MODULES
        objects = read_objects(path, self.tensors, _refuse_kept, trust=self.trust)
        found: list[nn.Module | None] = []
        for each in stored:
            if each.object is not None and each.object >= len(objects):
                raise ReplayError(
                    f"{path} is damaged or missing: it has no {each.name}", slug="step-damaged"
                )
            module = None if each.object is None else objects[each.object]
            if module is not None and not isinstance(module, nn.Module):
                raise ReplayError(
                    f"{self.path / layout.MODULES} is damaged: {each.name} is no module",
                    slug="step-damaged",
                )
            found.append(module)
        return found

    def objects(self, keep: Callable[[Any], KeptTensor]) -> list[Any]:
        """The objects among the arguments that were pickled; executes code."""
        return read_objects(self.path / layout.OBJECTS, self.tensors, keep, trust=self.trust)

    def record(self, modules: Sequence[nn.Module]) -> StepRecord:
        """The step as a record; ``modules`` are those of the manifest, in its order."""
        reader = RecordReader(
            self.manifest, self.tensors, self.objects, modules, str(self.path), self.may_import
        )
        try:
            with private.unobserved():
                return reader.record()
        except ReplayError:
            raise
        except Exception as error:  # a manifest that is valid, but makes no sense
            raise ReplayError(
                f"{self.path} is damaged: {type(error).__name__}: {error}", slug="step-damaged"
            ) from error

    @cached_property
    def may_import(self) -> bool:
        """Whether classes that the manifest names may be imported: see ``ownership``."""
        path = self.path / layout.MANIFEST
        try:
            with path.open("rb") as stream:
                refuse_foreign(path, stream.fileno(), trust=self.trust)
        except (ReplayError, OSError):
            return False
        return True


def _refuse_kept(value: Any) -> KeptTensor:
    """A network has no tensors of the step's record."""
    raise ValueError("a tensor of the record in a network")
