"""The private parts of torch's compiler that observing compiled code needs.

They are named here and in ``inductor_kernels``. Importing this module imports the compiler, which
takes a second or two: it is imported when a program first calls ``torch.compile``.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import fx, nn

from sonde.adapters.torch.living_objects import living_objects
from sonde.core import version_probe

version_probe.require(
    "observing compiled code",
    (
        "torch._dynamo.backends.common:aot_module_simplified",
        "torch._dynamo.compiled_autograd:_disable",
        "torch._dynamo.convert_frame:CatchErrorsWrapper.__call__",
        "torch._dynamo.eval_frame:_TorchDynamoContext.__init__",
        "torch._dynamo.output_graph:OutputGraph._call_user_compiler",
        "torch._dynamo.variables.nn_module:record_nn_module_stack",
        "torch._guards:CompileContext.try_get",
        "torch._guards:TracingContext.report_output_strides",
        "torch._inductor.compile_fx:_compile_fx_inner",
        "torch._inductor.config:patch",
        "torch._inductor.custom_graph_pass:CustomGraphPass",
        "torch._inductor.graph:GraphLowering.compile_to_module",
        "torch._inductor.inductor_prims:random",
        "torch._inductor.metrics:generated_kernel_count",
        "torch._inductor.utils:BoxedBool",
        "torch._inductor.virtualized:V.fake_mode",
        "torch._subclasses.fake_tensor:unset_fake_temporarily",
        "torch.fx._lazy_graph_module:_LazyGraphModule.force_recompile",
        "torch.fx.graph:_BoxedCodeGen",
        "torch.utils._python_dispatch:_disable_current_modes",
    ),
)

# Imported after the check above, which reports in one line what this torch lacks.
# ruff: noqa: E402
import torch._dynamo.backends.common as _backends
import torch._dynamo.compiled_autograd as _compiled_autograd
import torch._dynamo.convert_frame as _convert_frame
import torch._dynamo.eval_frame as _eval_frame
import torch._dynamo.output_graph as _output_graph
import torch._dynamo.variables.nn_module as _nn_module
import torch._guards
import torch._inductor.compile_fx as _compile_fx
import torch._inductor.config as _inductor_config
import torch._inductor.graph as _graph
import torch._inductor.inductor_prims as _inductor_prims
import torch._inductor.metrics as _metrics
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch._inductor.utils import BoxedBool
from torch._inductor.virtualized import V
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.fx.graph import _BoxedCodeGen
from torch.utils import _python_dispatch

from sonde.adapters.torch.compiled.graph import Family
from sonde.adapters.torch.compiled.inductor_kernels import together
from sonde.core.patching import call_before, replace

Compile = Callable[[fx.GraphModule, Sequence[Any]], Callable[[list[Any]], Any]]
"""A backend: makes a function of a graph; the function takes a list and empties it."""


def watch_backends(wrap: Callable[..., Compile], undo: ExitStack) -> None:
    """Replace every backend that AOTAutograd gives graphs to by ``wrap(backend, ...)``."""
    original: Any = vars(_backends)["aot_module_simplified"]

    @functools.wraps(original)
    def aot_module_simplified(mod: Any, args: Any, *rest: Any, **kwargs: Any) -> Any:
        is_inductor = kwargs.get("compiler_config_extra") is not None
        key = Family()
        for name in ("fw_compiler", "bw_compiler", "inference_compiler"):
            backend = kwargs.get(name)
            if backend is not None:
                kwargs[name] = wrap(
                    backend, is_inductor=is_inductor, is_backward=name == "bw_compiler", key=key
                )
        return original(mod, args, *rest, **kwargs)

    replace(_backends, "aot_module_simplified", aot_module_simplified, undo)


def watch_traced(
    wrap: Callable[[fx.GraphModule, Callable[..., Any]], Callable[..., Any]], undo: ExitStack
) -> None:
    """Replace what a backend returns by ``wrap(graph, it)`` if it is the graph unchanged."""
    kind = _output_graph.OutputGraph
    original = kind._call_user_compiler

    @functools.wraps(original)
    def call_user_compiler(self: Any, gm: fx.GraphModule, *args: Any) -> Any:
        made = original(self, gm, *args)
        is_graph = made is gm or getattr(made, "__self__", None) is gm
        return wrap(gm, made) if is_graph else made

    replace(kind, "_call_user_compiler", call_user_compiler, undo)


def watch_modules(met: dict[str, weakref.ref[nn.Module]], undo: ExitStack) -> None:
    """Fill ``met`` with the modules that dynamo traces, by the key it gives them."""

    def note(key: str, source: Any, tx: Any, mod: nn.Module) -> None:
        met[key] = weakref.ref(mod)

    call_before(_nn_module, "record_nn_module_stack", note, undo)


def hide_while_tracing(
    hidden: Callable[[], contextlib.AbstractContextManager[None]], undo: ExitStack
) -> None:
    """Trace every frame inside ``hidden()``."""
    kind = _convert_frame.CatchErrorsWrapper
    original = kind.__call__

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        with hidden():
            return original(self, *args, **kwargs)

    replace(kind, "__call__", call, undo)


def watch_entries(
    began: Callable[[], None], undo: ExitStack, *, with_existing: bool = False
) -> None:
    """Call ``began`` whenever a function that is compiled from now on is about to run, until
    ``undo`` is closed; torch keeps the hooks for longer. ``with_existing``: also for functions that
    were given to ``torch.compile`` before."""
    kind = _eval_frame._TorchDynamoContext
    original = kind.__init__
    current = [began]
    undo.callback(current.clear)

    def enter() -> Callable[[], None]:
        for action in current:
            action()
        return lambda: None  # The exit hook.

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        self.enter_exit_hooks.append(enter)

    replace(kind, "__init__", init, undo)
    if with_existing:
        for each in living_objects(kind):
            each.enter_exit_hooks.append(enter)


class Circumstances:
    """The compiler's context when a graph was first compiled, for compiling it once more."""

    def __init__(self) -> None:
        self._tracing = torch._guards.TracingContext.try_get()
        self._compiling = torch._guards.CompileContext.try_get()
        fake = V.fake_mode
        self._fake = fake if isinstance(fake, torch._subclasses.FakeTensorMode) else None

    @contextmanager
    def again(self) -> Iterator[None]:
        """Restore the context in this block."""
        with ExitStack() as stack:
            stack.enter_context(_python_dispatch._disable_current_modes())
            stack.enter_context(torch._guards.tracing(self._tracing))
            stack.enter_context(torch._guards.compile_context(self._compiling))
            stack.enter_context(_compiled_autograd._disable())
            stack.enter_context(torch._C._DisableAutocast())
            if self._fake is not None:
                stack.enter_context(V.set_fake_mode(self._fake))
            yield


def reported_strides() -> list[Any]:
    """The strides of outputs that were reported to AOTAutograd in the running compilation."""
    context = torch._guards.TracingContext.try_get()
    return list(context.output_strides or ()) if context is not None else []


def keep_strides_apart() -> contextlib.AbstractContextManager[Any]:
    """In this block compilations do not report strides of outputs to AOTAutograd."""
    if torch._guards.TracingContext.try_get() is None:
        return contextlib.nullcontext()
    return torch._guards.TracingContext.report_output_strides()


def copy_of(module: fx.GraphModule) -> fx.GraphModule:
    """A copy of ``module``, for a backend, which may change it."""
    with unset_fake_temporarily():
        return copy.deepcopy(module)


def boxed(module: fx.GraphModule) -> Callable[[list[Any]], Any]:
    """A function that runs ``module`` op by op; it takes a list and empties it."""
    module.graph.set_codegen(_BoxedCodeGen())
    module.recompile()
    _LazyGraphModule.force_recompile(module)
    forward = module.forward

    def run(args: list[Any]) -> Any:
        return forward(args)

    return run


def freezes_parameters() -> bool:
    """Whether a graph that is compiled now gets its parameters as constants (``freezing``)."""
    return bool(_inductor_config.freezing) and not torch.is_grad_enabled()


def seed_random_ops(graph: fx.Graph) -> None:
    """Replace Inductor's random ops by ops that use their seed outside kernels too: backward may
    run them again."""
    for node in graph.nodes:
        if node.target is _inductor_prims.random:
            node.target = _seeded_random
        elif node.target is _inductor_prims.randint:
            node.target = _seeded_randint


def _seeded_random(size: Sequence[int], seed: torch.Tensor, mode: str, **_: Any) -> Any:
    generator = torch.Generator(seed.device).manual_seed(int(seed))
    return getattr(torch, mode)(size, generator=generator, device=seed.device, dtype=torch.float32)


def _seeded_randint(low: int, high: int, size: Sequence[int], seed: torch.Tensor) -> Any:
    generator = torch.Generator(seed.device).manual_seed(int(seed))
    return torch.randint(low, high, size, generator=generator, device=seed.device)


class _Pass(CustomGraphPass):
    def __init__(self, change: Callable[[fx.Graph], None]) -> None:
        self._change = change

    def __call__(self, graph: fx.Graph) -> None:
        self._change(graph)

    def uuid(self) -> None:
        """None: the result belongs to this run and must not be cached."""


@contextmanager
def inductor_pass(change: Callable[[fx.Graph], None]) -> Iterator[None]:
    """Apply ``change`` as the last pass over Inductor's graphs in this block, without its caches.

    Observed code calls back into Python, so it cannot be replayed by CUDA graphs or run from C++
    alone. The settings are made in ``_compile_fx_inner`` because Inductor applies the program's
    mode and options before it: made earlier, they would be overridden.
    """
    original = _compile_fx._compile_fx_inner

    @functools.wraps(original)
    def compile_inner(graph: fx.GraphModule, inputs: Sequence[Any], **more: Any) -> Any:
        users = _inductor_config.post_grad_custom_post_pass
        passes = [*_as_list(users), _Pass(change)]
        more["cudagraphs"] = BoxedBool(False)
        settings = {**_OBSERVED_SETTINGS, "post_grad_custom_post_pass": passes}
        with _inductor_config.patch(settings), together():
            return original(graph, inputs, **more)

    with ExitStack() as undo:
        replace(_compile_fx, "_compile_fx_inner", compile_inner, undo)
        yield


_OBSERVED_SETTINGS = {
    "fx_graph_cache": False,
    "fx_graph_remote_cache": False,
    "cpp_wrapper": False,
    "triton.cudagraphs": False,
    # The following would change the order of kernels, and so of observers.
    "graph_partition": False,
    "reorder_for_compute_comm_overlap": False,
    "reorder_for_locality": False,
    "reorder_for_peak_memory": False,
}


def _as_list(passes: Any) -> list[Any]:
    if passes is None:
        return []
    return list(passes) if isinstance(passes, (list, tuple)) else [passes]


def kernels_of(code: Any) -> int | None:
    """How many kernels Inductor generated for ``code``; None if it is not Inductor's."""
    while code is not None:
        deltas = getattr(code, "metrics_deltas", None)
        if deltas is not None:
            return int(deltas.generated_kernel_count)
        code = getattr(code, "_torchdynamo_orig_callable", None)
    return None


class _CountedError(Exception):
    """Raised when a graph's code has been generated: it is not to be compiled."""


def count_kernels(make: Callable[[], Any]) -> int | None:
    """How many kernels Inductor would generate in ``make``, which is stopped before it compiles."""
    kind = _graph.GraphLowering
    before = _metrics.generated_kernel_count
    counts: list[int] = []

    def stop(self: Any) -> Any:
        self.codegen()
        counts.append(_metrics.generated_kernel_count - before)
        raise _CountedError

    with (
        ExitStack() as undo,
        _inductor_config.patch(fx_graph_cache=False, fx_graph_remote_cache=False),
    ):
        replace(kind, "compile_to_module", stop, undo)
        with contextlib.suppress(Exception):
            make()
    return counts[0] if counts else None
