"""What MindSpore's documents use and a program on PyTorch cannot have, with the answer to each.

A name that Sonde lacks for a reason raises `NotHereError`; an option of ``set_context`` that has no
meaning here is said in one line. Both sentences say why, and what to use instead.
"""

from __future__ import annotations

from sonde.core.errors import SondeError

NAMES: dict[str, str] = {
    "Cast": "it is an op of MindSpore: tensor.to(dtype) of PyTorch does the same",
    "DistributedGradReducer": (
        "PyTorch averages gradients itself: wrap the network in "
        "torch.nn.parallel.DistributedDataParallel"
    ),
    "Minimum": "it is an op of MindSpore: torch.minimum, or Python's min for numbers, does it",
    "Parameter": "PyTorch has it: from torch.nn import Parameter",
    "PrecisionDebugger": (
        "it is msprobe's, for Ascend: sonde.capture(config) or sonde run --dump observes a "
        "program on PyTorch"
    ),
    "TFRecordDataset": (
        "it is a reader of MindSpore: the package tfrecord reads such files as a dataset for "
        "torch.utils.data.DataLoader"
    ),
    "Tensor": "PyTorch makes tensors of arrays and lists: from torch import tensor as Tensor",
    "communication": (
        "ranks find each other with torchrun --nproc-per-node N and "
        "torch.distributed.init_process_group()"
    ),
    "data_sink": (
        "PyTorch has no sink: call the training step with each batch of a DataLoader, whose "
        "workers load the next ones meanwhile"
    ),
}
"""Why a name is not here, and what to use instead."""

_COMPILE = "torch.compile(network), or Model(..., compile=True), compiles"

OPTIONS: dict[str, str] = {
    "all_reduce_fusion_config": (
        "DistributedDataParallel(..., bucket_cap_mb=N) divides the gradients, and sonde profile "
        "--try buckets measures which size is best"
    ),
    "ascend_config": (
        'there is no Ascend here; "op_debug_mode": 4 dumps the inputs of an op that raises'
    ),
    "auto_tune_mode": 'there is no operator tuning here; torch.compile(mode="max-autotune") tunes',
    "device_id": "PyTorch puts a network where network.to('cuda:1') says",
    "device_num": "the launcher says how many ranks there are: torchrun --nproc-per-node N",
    "device_target": (
        "PyTorch puts each tensor where .to(device) says, and devices may be mixed in one network"
    ),
    "enable_graph_kernel": f"{_COMPILE} and fuses",
    "gradients_mean": "DistributedDataParallel always averages",
    "graph_kernel_flags": f"{_COMPILE} and fuses; torch.compile(options=...) has its flags",
    "jit_config": f"there are no levels O0 to O2 here: all ops can be observed; {_COMPILE}",
    "jit_level": f"there are no levels O0 to O2 here: all ops can be observed; {_COMPILE}",
    "mode": f"PyTorch runs every op at once, as PYNATIVE_MODE does; {_COMPILE}, as GRAPH_MODE does",
    "parallel_mode": "torch.nn.parallel.DistributedDataParallel trains data-parallel",
    "pynative_synchronize": "ops on the CPU are synchronous; CUDA_LAUNCH_BLOCKING=1 for a GPU",
    "save_graphs": "every dump has the graph as it ran, in graphs/*.ir; no passes follow",
    "save_graphs_path": "every dump has the graph as it ran, in graphs/*.ir below its path",
}
"""Why an option of ``set_context`` has no effect, and what to use instead."""


class NotHereError(SondeError, ImportError):
    """A name of MindSpore that cannot exist with PyTorch.

    An ImportError, because ``from module import name`` replaces an AttributeError by an error
    without this text.
    """


def absent(module: str, name: str) -> None:
    """Raise `NotHereError` if ``name`` is one of `NAMES`, else do nothing."""
    reason = NAMES.get(name)
    if reason is not None:
        raise NotHereError(f"{module} has no {name}: {reason}", slug="not-here")
