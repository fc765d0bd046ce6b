"""Finds the networks of a captured step: by a factory, by their pickle, or in a running set-up."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from torch import nn

from sonde.adapters.torch.replay.networks.weights import give_weights
from sonde.adapters.torch.replay.storage.captured_step import CapturedStep
from sonde.adapters.torch.replay.storage.object_pickle import first_line
from sonde.adapters.torch.replay.storage.wrappers import unwrapped
from sonde.replay import layout
from sonde.replay.errors import ReplayError
from sonde.replay.manifest import StoredModule
from sonde.replay.script_definitions import Definitions, as_main, script_definitions

Way = Literal["factory", "pickle", "set-up"]


@dataclass(frozen=True, slots=True)
class FoundModules:
    """The networks of a step, in the order of its manifest; ``text`` says where they are from."""

    modules: list[nn.Module]
    way: Way
    text: str


@contextmanager
def modules_of_factory(step: CapturedStep, factory: str) -> Iterator[FoundModules]:
    """The networks that ``package.module:function`` builds, with the weights of the step."""
    with _program_path(step):
        function = _function(factory)
        try:
            built = function()
        except Exception as error:  # code of the user
            raise ReplayError(
                f"--module {factory} failed: {first_line(error)}; it must return the network when "
                "it is called without arguments",
                slug="module-factory",
            ) from None
        modules = fitted(step, _as_sequence(built, factory, step), f"--module {factory}")
        yield FoundModules(modules, "factory", f"built by {factory}")


@contextmanager
def pickled_modules(step: CapturedStep, script: Path | None) -> Iterator[FoundModules]:
    """The pickled networks; classes of ``__main__`` are those of the script, which is not run."""
    missing = [each for each in step.manifest.modules if each.object is None]
    if missing:
        raise ReplayError(
            f"the captured step has no pickle of {missing[0].name} "
            f"({missing[0].problem or 'it was not kept'}); give the network with --module "
            "package.module:function, or add --run-setup",
            slug="module-missing",
        )
    with _program_path(step), ExitStack() as undo:
        text = "unpickled"
        definitions = None
        if _needs_main(step):
            definitions = _definitions(step, script)
            undo.enter_context(as_main(definitions))
            text = f"unpickled; its classes are those of {definitions.module.__file__}"
        try:
            found = [module for module in step.pickled_modules() if module is not None]
        except ReplayError as error:
            raise _explained(error, definitions) from None
        yield FoundModules(found, "pickle", text)


def fitted(step: CapturedStep, given: Sequence[nn.Module], source: str) -> list[nn.Module]:
    """``given`` in the order of the manifest, with the weights of the step.

    Modules without parameters, such as losses, that are not among them come from the pickle.
    """
    stored = step.manifest.modules
    places: list[nn.Module | None] = [None] * len(stored)
    for module in given:
        inner, _ = unwrapped(module)
        number = _place_of(inner, stored, places, source)
        give_weights(inner, stored[number], step.tensors)
        places[number] = inner
    lacking = [each for each, module in zip(stored, places, strict=True) if module is None]
    if lacking:
        _fill_in(step, places, source)
    return [module for module in places if module is not None]


def fits(module: nn.Module, stored: StoredModule) -> bool:
    """Whether a module has the parameters of the stored one, by names and number."""
    names = {name for name, _ in module.named_parameters()}
    return names == {each.name for each in stored.parameters}


def _place_of(
    module: nn.Module,
    stored: Sequence[StoredModule],
    places: Sequence[nn.Module | None],
    source: str,
) -> int:
    free = [number for number, place in enumerate(places) if place is None]
    exact = [number for number in free if fits(module, stored[number])]
    name = type(module).__qualname__
    same = [number for number in exact or free if stored[number].of.endswith(f":{name}")]
    with_weights = [number for number in free if stored[number].parameters]
    for candidates in (same, exact, with_weights, free):
        if candidates:
            return candidates[0]
    raise ReplayError(
        f"{source}: the step has {len(stored)} networks, and there are more of them here",
        slug="module-differs",
    )


def _fill_in(step: CapturedStep, places: list[nn.Module | None], source: str) -> None:
    pickled = step.pickled_modules()
    for number, stored in enumerate(step.manifest.modules):
        if places[number] is None:
            places[number] = pickled[number]
        if places[number] is None:
            raise ReplayError(
                f"{source} gives no {stored.name}, which is also part of the step and could not be "
                f"pickled ({stored.problem}); return a dict of networks by name",
                slug="module-missing",
            )


def _as_sequence(built: Any, factory: str, step: CapturedStep) -> list[nn.Module]:
    if isinstance(built, Mapping) and not isinstance(built, nn.Module):
        built = list(built.values())
    found = list(built) if isinstance(built, list | tuple) else [built]
    for each in found or [built]:
        if not isinstance(each, nn.Module):
            raise ReplayError(
                f"--module {factory} returned a {type(each).__name__}; it must return a "
                "torch.nn.Module, or a dict of them by name",
                slug="module-factory",
            )
    return found


def _function(factory: str) -> Any:
    place, _, name = factory.rpartition(":")
    if not place or not name:
        raise ReplayError(
            f"--module {factory!r} is not package.module:function or file.py:function",
            slug="module-factory",
        )
    try:
        found: Any = _imported(place)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:  # code of the user runs at an import
        raise ReplayError(
            f"--module {factory} is not found: {first_line(error)}", slug="module-factory"
        ) from None
    if not callable(found):
        raise ReplayError(
            f"--module {factory} is a {type(found).__name__}, not a function or class",
            slug="module-factory",
        )
    return found


def _imported(place: str) -> ModuleType:
    if not place.endswith(".py"):
        return importlib.import_module(place)
    path = Path(place).resolve()
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{place} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


@contextmanager
def _program_path(step: CapturedStep) -> Iterator[None]:
    """Find modules where the program found them, after those of this process."""
    before = list(sys.path)
    program = step.manifest.program
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())
    if step.may_import:
        sys.path += [each for each in program.path if each and each not in sys.path]
    try:
        yield
    finally:
        sys.path[:] = before


def _needs_main(step: CapturedStep) -> bool:
    paths = (step.path / layout.MODULES, step.path / layout.OBJECTS, step.path / layout.MANIFEST)
    return any(b"__main__" in path.read_bytes() for path in paths if path.is_file())


def _definitions(step: CapturedStep, script: Path | None) -> Definitions:
    program = step.manifest.program
    if script is None and program.file is None:
        raise ReplayError(
            "the network's classes were defined in an interactive session, which is over; give the "
            "script with them by --script, or the network by --module package.module:function",
            slug="script-missing",
        )
    if script is None and not step.may_import:
        raise ReplayError(
            f"{step.path} was written by another user, and names a script to execute definitions "
            "of; if you trust that user, add --trust",
            slug="step-untrusted",
        )
    path = Path(program.file or "") if script is None else script
    package = (program.module or "").rpartition(".")[0] if script is None else ""
    return script_definitions(path, package=package or None)


def _explained(error: ReplayError, definitions: Definitions | None) -> ReplayError:
    """The error with the reason why a definition of the script was skipped, if that is it."""
    skipped = {} if definitions is None else definitions.skipped
    for name, reason in skipped.items():
        if f"'{name}'" in error.message:
            return ReplayError(
                f"the class {name} of the script cannot be defined without its statements "
                f"({reason}); give the network with --module package.module:function, or add "
                "--run-setup",
                slug="code-missing",
            )
    return error
