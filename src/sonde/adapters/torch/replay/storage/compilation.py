"""How ``torch.compile`` was called for a network, and compiling it again in the same way.

Torch keeps the settings in private attributes. Where they are not found, the network is compiled
with the default settings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from sonde.adapters.torch.eager.naming.wrappers import wrapped
from sonde.adapters.torch.replay.storage.wrappers import COMPILED
from sonde.replay.manifest import StoredCompilation

_DEFAULT = "inductor"
_MOST_WRAPPERS = 10
_CALL = "_compiled_call_impl"


def compilation_of(called: nn.Module) -> StoredCompilation | None:
    """The settings of the compiled module among the wrappers of ``called``; None without one."""
    module: nn.Module | None = called
    while module is not None:
        if type(module).__name__ == COMPILED:
            return _settings(getattr(module, "dynamo_ctx", None))
        module = wrapped(module)
    return None


def compiled_parts(network: nn.Module) -> dict[str, StoredCompilation]:
    """The settings of submodules that were compiled in place (``Module.compile``), by name."""
    found = {}
    for name, module in network.named_modules():
        function = getattr(module, _CALL, None)
        if function is not None:
            cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
            found[name] = _settings(dict(cells).get("self"))
    return found


def compiled_again(
    network: nn.Module, settings: StoredCompilation | None, parts: Mapping[str, StoredCompilation]
) -> nn.Module:
    """``network`` compiled as it was: as a whole with ``settings`` (None: not at all), and its
    ``parts`` in place."""
    for name, module in network.named_modules():
        setattr(module, _CALL, None)
        if name in parts:
            module.compile(**_words(parts[name]))
    return network if settings is None else torch.compile(network, **_words(settings))  # type: ignore[return-value]


def _settings(context: Any) -> StoredCompilation:
    context = getattr(context, "cell_contents", context)
    backend = getattr(context, "callback", None)
    for _ in range(_MOST_WRAPPERS):
        inner = getattr(backend, "_torchdynamo_orig_backend", None)
        if inner is None:
            break
        backend = inner
    options = getattr(backend, "config", None) or getattr(backend, "kwargs", None) or {}
    dynamic = getattr(backend, "dynamic", None)
    return StoredCompilation(
        backend=str(getattr(backend, "compiler_name", _DEFAULT)),
        options={name: each for name, each in dict(options).items() if _is_plain(each)},
        dynamic=dynamic if isinstance(dynamic, bool) else None,
        fullgraph=bool(getattr(context, "fullgraph", False)),
    )


def _words(settings: StoredCompilation) -> dict[str, Any]:
    known = torch.compiler.list_backends(())
    return {
        "backend": settings.backend if settings.backend in known else _DEFAULT,
        "options": settings.options or None,
        "dynamic": settings.dynamic,
        "fullgraph": settings.fullgraph,
    }


def _is_plain(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, bool | int | str)
