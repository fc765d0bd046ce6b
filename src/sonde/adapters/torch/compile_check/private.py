"""The private parts of torch that compile-check needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from sonde.core import version_probe

version_probe.require("checking compiled code", ("torch.utils._pytree:tree_map_only",))

pytree: Any = torch.utils._pytree
"""Functions over nested lists, tuples and dicts."""


def require() -> None:
    """Raise TorchVersionError if this torch lacks a part of the compiler that the check needs."""
    version_probe.require(
        "checking compiled code",
        (
            "torch:_TorchCompileInductorWrapper",
            "torch._dynamo.backends.common:aot_autograd",
            "torch._dynamo.backends.debugging:aot_eager_decomp_partition",
            "torch._dynamo.backends.registry:lookup_backend",
            "torch._functorch._aot_autograd.utils:make_boxed_compiler",
            "torch._functorch.config:patch",
            "torch._functorch.partitioners:default_partition",
            "torch._inductor.compile_fx",
            "torch._inductor.config:patch",
            "torch._inductor.decomposition:select_decomp_table",
        ),
    )


def backend_function(
    backend: Any, mode: str | None, options: Mapping[str, Any] | None
) -> Callable[..., Any]:
    """The function that ``torch.compile`` would compile graphs with."""
    from torch._dynamo.backends.registry import lookup_backend

    if backend == "inductor":
        make: Callable[..., Callable[..., Any]] = torch._TorchCompileInductorWrapper
        return make(mode, options, False)
    function: Callable[..., Any] = lookup_backend(backend)
    return function


def backend_name(backend: Any) -> str:
    if isinstance(backend, str):
        return backend
    return str(getattr(backend, "__name__", type(backend).__name__))


@contextmanager
def careful_compiler() -> Iterator[None]:
    """In this block Inductor draws random numbers as eager code does, and uses no caches."""
    import torch._functorch.config
    import torch._inductor.config

    with (
        torch._inductor.config.patch(fallback_random=True, force_disable_caches=True),
        torch._functorch.config.patch(enable_autograd_cache=False),
    ):
        yield


@contextmanager
def quick_compiler() -> Iterator[None]:
    """The careful compiler, for code that is run once: its kernels are compiled together."""
    from sonde.adapters.torch.compiled.inductor_kernels import together

    with careful_compiler(), together():
        yield


def interpreted_backend() -> Callable[..., Any]:
    """Inductor's graphs, decomposed and split as it does, run op by op with eager kernels."""
    from torch._dynamo.backends.debugging import aot_eager_decomp_partition

    backend: Callable[..., Any] = aot_eager_decomp_partition
    return backend


def aot_backend(forward: Any, backward: Any) -> Callable[..., Any]:
    """AOTAutograd without decompositions; ``forward`` and ``backward`` make functions of graphs."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch._aot_autograd.utils import make_boxed_compiler
    from torch._functorch.partitioners import default_partition

    def save_everything(graph: Any, *args: Any, **kwargs: Any) -> Any:
        for node in graph.graph.nodes:
            node.meta.pop("recompute", None)
        return default_partition(graph, *args, **kwargs)

    made: Callable[..., Any] = aot_autograd(
        fw_compiler=make_boxed_compiler(forward),
        bw_compiler=make_boxed_compiler(backward),
        inference_compiler=make_boxed_compiler(forward),
        partition_fn=save_everything,
        decompositions={},
    )
    return made


def decompositions() -> Mapping[Any, Callable[..., Any]]:
    """The decompositions of ops that the careful compiler uses."""
    from torch._inductor.decomposition import select_decomp_table

    with careful_compiler():
        table: Mapping[Any, Callable[..., Any]] = select_decomp_table()
    return table
