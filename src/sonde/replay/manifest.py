"""The manifest of a captured step: what was recorded, in which order, and where its tensors are.

``docs/captured-step.md`` describes the file. Numbers that JSON lacks (NaN, infinities) are texts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import Meta

from sonde.core.errors import DumpError
from sonde.core.text.number_text import json_value
from sonde.dump.bounded_file import read_bytes
from sonde.replay.errors import ReplayError
from sonde.replay.layout import MANIFEST
from sonde.replay.stored_values import AnyStoredValue, ClassPath, Index, missing_values
from sonde.replay.tensor_table import CapturedTensor

FORMAT: Final = 1
MAX_BYTES: Final = 256 << 20
Number: TypeAlias = float | str
Natural: TypeAlias = Annotated[int, Meta(ge=0, le=2**53)]


class ManifestSection(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of the manifest. Keys that this version does not know are ignored."""


class StoredProgram(ManifestSection, frozen=True, kw_only=True, omit_defaults=True):
    """The program: its file, the module it was started as (``-m``), its arguments and folder.

    ``digest`` is a hash of the file, to say that it has changed since.
    """

    file: str | None = None
    module: str | None = None
    arguments: list[str] = []
    directory: str = ""
    path: list[str] = []
    digest: str = ""


class StoredTrigger(ManifestSection, frozen=True, kw_only=True, omit_defaults=True):
    """Why the step was kept. ``text`` is the sentence for people."""

    kind: str
    step: Natural = 0
    quantity: str | None = None
    parameter: str | None = None
    value: Number | None = None
    threshold: Number | None = None
    text: str = ""
    facts: dict[str, Any] = {}


class StoredParameter(ManifestSection, frozen=True, kw_only=True, omit_defaults=True):
    """A parameter, and its gradient when the step was captured. ``own_gradient``: what this rank
    computed itself, if ranks averaged the gradient."""

    name: str
    index: Index
    gradient: AnyStoredValue | None = None
    own_gradient: AnyStoredValue | None = None


class StoredCompilation(ManifestSection, frozen=True, kw_only=True, omit_defaults=True):
    """The arguments of ``torch.compile``."""

    backend: str
    options: dict[str, Any] = {}
    dynamic: bool | None = None
    fullgraph: bool = False


class StoredModule(ManifestSection, frozen=True, kw_only=True, omit_defaults=True):
    """An outermost module: its class, its parameters and buffers.

    ``object`` is its index in the pickle; None if it could not be pickled, for the reason
    ``problem``. ``dropped`` are hooks of the program that could not be pickled. ``compilation``:
    how it was compiled as a whole; ``compiled_parts``: submodules compiled in place, by name.
    """

    name: str
    of: str
    parameters: list[StoredParameter]
    buffers: dict[str, Index]
    object: Index | None = None
    problem: str = ""
    is_compiled: bool = False
    compilation: StoredCompilation | None = None
    compiled_parts: dict[str, StoredCompilation] = {}
    wrapper: str = ""
    dropped: list[str] = []


class StoredRandom(ManifestSection, frozen=True, kw_only=True, omit_defaults=True):
    """States of random generators; ``python`` and ``numpy`` as they give them."""

    cpu: Index
    python: AnyStoredValue | None = None
    numpy: AnyStoredValue | None = None
    devices: dict[str, Index] = {}


class StoredAutocast(ManifestSection, frozen=True, kw_only=True, omit_defaults=True):
    device: str
    is_enabled: bool
    dtype: str
    is_cached: bool


class StoredLine(ManifestSection, frozen=True, kw_only=True, omit_defaults=True):
    """A line of the program."""

    file: str
    line: Natural
    function: str


class StoredOutput(ManifestSection, frozen=True, kw_only=True, omit_defaults=True):
    path: AnyStoredValue
    tensor: AnyStoredValue
    gradient: Index | None = None
    backward: Natural | None = None


class StoredBuffer(ManifestSection, frozen=True, kw_only=True, omit_defaults=True):
    """A buffer ``name`` of the submodule ``module`` as it was before a call."""

    module: str
    name: str
    index: Index


class StoredAttribute(ManifestSection, frozen=True, kw_only=True, omit_defaults=True):
    """An attribute as it was before a call; ``is_contents``: the value is that of a container,
    which stays the same object."""

    module: str
    name: str
    value: AnyStoredValue
    is_contents: bool = False


class StoredCall(
    ManifestSection, frozen=True, kw_only=True, omit_defaults=True, tag_field="event", tag="call"
):
    """A call of an outermost module; ``module`` is its index among the manifest's modules. ``age``:
    how many steps of optimizers lie between it and its backward pass."""

    module: Index
    args: AnyStoredValue
    kwargs: AnyStoredValue
    random: StoredRandom
    autocast: list[StoredAutocast]
    has_gradients: bool
    training: list[bool]
    requires_grad: list[bool] = []
    buffers: list[StoredBuffer] = []
    attributes: list[StoredAttribute] = []
    outputs: list[StoredOutput] = []
    micro_batch: Natural = 0
    line: StoredLine | None = None
    error: str | None = None
    age: Natural = 0


class CapturedOp(
    ManifestSection, frozen=True, kw_only=True, omit_defaults=True, tag_field="event", tag="op"
):
    """A function of torch that the program called outside of modules."""

    function: str
    name: str
    args: AnyStoredValue
    kwargs: AnyStoredValue
    results: AnyStoredValue
    has_gradients: bool
    autocast: list[StoredAutocast]
    line: StoredLine | None = None
    random: StoredRandom | None = None
    written: list[tuple[AnyStoredValue, AnyStoredValue]] = []
    error: str | None = None


class StoredGradient(ManifestSection, frozen=True, kw_only=True, omit_defaults=True):
    """A gradient of a parameter after a backward pass, which the program went on to change."""

    parameter: Index
    gradient: AnyStoredValue


class StoredBackward(
    ManifestSection,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    tag_field="event",
    tag="backward",
):
    is_connected: bool
    roots: AnyStoredValue
    gradients: AnyStoredValue
    parameter_gradients: list[StoredGradient] = []
    autocast: list[StoredAutocast] = []
    keeps_graph: bool | None = None
    makes_graph: bool = False
    inputs: AnyStoredValue | None = None
    error: str | None = None


StoredEvent: TypeAlias = StoredCall | CapturedOp | StoredBackward


class StoredGroup(ManifestSection, frozen=True, kw_only=True, omit_defaults=True):
    """A group of an optimizer: the indices of its parameters, and its settings."""

    parameters: list[Index | None]
    settings: dict[str, AnyStoredValue]


class StoredOptimizer(ManifestSection, frozen=True, kw_only=True, omit_defaults=True):
    """``state``: by the position of the parameter; None if it was not asked for. ``attributes``:
    those of an optimizer of the program's own class, with the state."""

    of: ClassPath
    groups: list[StoredGroup]
    state: dict[str, AnyStoredValue] | None = None
    attributes: dict[str, AnyStoredValue] = {}


class StoredScaler(ManifestSection, frozen=True, kw_only=True, omit_defaults=True):
    """A GradScaler: the scale of the step, and its state."""

    device: str
    scale: Number
    state: dict[str, Any] = {}


class StoredReason(ManifestSection, frozen=True, kw_only=True, omit_defaults=True):
    """Why a part of the step cannot be executed again."""

    kind: str
    subject: str = ""
    detail: str = ""


class StoredPrior(ManifestSection, frozen=True, kw_only=True, omit_defaults=True):
    """The gradient of a parameter before the first backward pass; ``values`` None: zeros."""

    parameter: Index
    values: Index | None = None


class Manifest(ManifestSection, frozen=True, kw_only=True, omit_defaults=True):
    """Everything but the tensors. ``accumulation`` is the number of backward passes of the step,
    ``averaged_over`` the number of ranks that averaged its gradients."""

    format: Natural
    step: Natural
    rank: Natural
    versions: dict[str, str]
    program: StoredProgram
    flags: dict[str, Any]
    accumulation: Natural
    trigger: StoredTrigger | None
    signals: dict[str, Any]
    tensors: Annotated[list[CapturedTensor], Meta(max_length=10_000_000)]
    modules: list[StoredModule]
    events: list[StoredEvent]
    prior_gradients: list[StoredPrior] = []
    optimizer: StoredOptimizer | None = None
    scaler: StoredScaler | None = None
    unreplayable: list[StoredReason] = []
    averaged_over: Natural = 1


class _Version(msgspec.Struct):
    format: int


def encode_manifest(manifest: Manifest) -> bytes:
    """The bytes of ``manifest.json``."""
    plain = json_value(msgspec.to_builtins(manifest, builtin_types=(bytes,)))
    return msgspec.json.format(msgspec.json.encode(plain), indent=1)


def read_manifest(directory: Path) -> Manifest:
    """The manifest of a captured step; ReplayError if it is missing, damaged or too new."""
    path = directory / MANIFEST
    try:
        data = read_bytes(path, MAX_BYTES, slug="step-damaged")
    except DumpError as error:
        raise ReplayError(error.message, slug="step-damaged") from None
    try:
        version = msgspec.json.decode(data, type=_Version).format
        if version != FORMAT:
            raise ReplayError(
                f"{path} has the format {version}, this version of Sonde reads {FORMAT}; use the "
                "version that wrote it",
                slug="step-format",
            )
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ReplayError(
            f"{path} is damaged or not a manifest of a captured step: {error}", slug="step-damaged"
        ) from None
    if (problem := _wrong_index(manifest)) is not None:
        raise ReplayError(f"{path} is damaged: {problem}", slug="step-damaged")
    return manifest


def why_incomplete(manifest: Manifest) -> list[str]:
    """Which values of the step were not kept, each with the reason."""
    values: list[AnyStoredValue] = []
    for event in manifest.events:
        if isinstance(event, StoredBackward):
            values += [event.roots, event.gradients]
        else:
            values += [event.args, event.kwargs]
    return [f"{each.type}: {each.reason}" for value in values for each in missing_values(value)]


def _wrong_index(manifest: Manifest) -> str | None:
    """The first index outside its table, of those that are not checked where values are built."""
    tensors, modules = len(manifest.tensors), len(manifest.modules)
    used: list[int] = []
    for module in manifest.modules:
        used += [each.index for each in module.parameters]
        used += module.buffers.values()
    for event in manifest.events:
        if isinstance(event, StoredCall):
            if event.module >= modules:
                return f"there is no module {event.module}"
            used += [each.index for each in event.buffers]
            used += [event.random.cpu, *event.random.devices.values()]
            used += [each.gradient for each in event.outputs if each.gradient is not None]
        elif isinstance(event, StoredBackward):
            used += [each.parameter for each in event.parameter_gradients]
        elif event.random is not None:
            used += [event.random.cpu, *event.random.devices.values()]
    for prior in manifest.prior_gradients:
        used += [prior.parameter] + ([] if prior.values is None else [prior.values])
    for group in () if manifest.optimizer is None else manifest.optimizer.groups:
        used += [each for each in group.parameters if each is not None]
    wrong = next((index for index in used if index >= tensors), None)
    return None if wrong is None else f"there is no tensor {wrong}"
