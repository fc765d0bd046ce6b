"""What the documents describe and PyTorch on this machine cannot have: the answer, or the fact."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.adapters.torch.dumping import arrays, dumping, files
from tests.train.nets import classifier, loader, sgd
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import sonde
from sonde import context, logs
from sonde.core.errors import UsageError
from sonde.core.mindspore.absent_names import NAMES, OPTIONS, NotHereError
from sonde.train import Callback, Model

Lines = Callable[[], list[str]]


def answer_to(option: str, value: Any, lines: Lines) -> str:
    """The one line that is said to an option of ``set_context``; the program goes on."""
    context.set_context(**{option: value})
    context.set_context(**{option: value})
    [line] = lines()
    assert line.startswith(f"set_context({option}=...) has no effect here: ")
    assert "\n" not in line
    assert context.get_context(option) == value
    return line


def test_every_answer_is_one_line() -> None:
    for text in (*NAMES.values(), *OPTIONS.values()):
        assert "\n" not in text
        assert len(text) < 160


def test_an_unknown_option_is_an_error() -> None:
    with pytest.raises(UsageError, match="did you mean 'device_target'"):
        context.set_context(device_targt="CPU")


def imported(module: str, name: str) -> str:
    """The error of ``from module import name``."""
    with pytest.raises(NotHereError) as error:
        exec(f"from {module} import {name}", {})
    assert "\n" not in str(error.value)
    assert str(error.value).endswith("[not-here]")
    return str(error.value)


# --------------------------------------------------------------- modes, levels, devices


@pytest.mark.document(
    71,
    says="`set_context(mode=PYNATIVE_MODE)`",
    how="PyTorch is eager as it is; the line that says so names `torch.compile`",
)
def test_the_mode(warnings_logged: Lines) -> None:
    assert "torch.compile" in answer_to("mode", context.PYNATIVE_MODE, warnings_logged)


@pytest.mark.document(
    101,
    says="Ascend's O0, O1, O2 (`jit_level`) dump different things",
    how="there is one mode, in which every op can be observed; a line says so",
)
def test_the_level(warnings_logged: Lines) -> None:
    assert "all ops can be observed" in answer_to("jit_level", "O2", warnings_logged)


@pytest.mark.document(
    102,
    says="O2 has moved to msprobe; `exception_dump` of `ascend_config`; sink size 1, `data_sink`",
    how="`sonde.capture` or `sonde run --dump` in place of msprobe's `PrecisionDebugger`, "
    "`op_debug_mode` 4 in place of `exception_dump`; steps are observed whatever `sink_size` is",
)
def test_msprobe(warnings_logged: Lines) -> None:
    assert "sonde.capture" in imported("sonde.train", "PrecisionDebugger")
    assert "no sink" in imported("sonde.train", "data_sink")
    given = {"exception_dump": "2"}
    assert '"op_debug_mode": 4' in answer_to("ascend_config", given, warnings_logged)


@pytest.mark.document(
    103,
    says="heterogeneous training cannot be dumped",
    how="devices may be mixed: what is elsewhere is observed too, without values if it has none",
)
def test_a_network_on_two_devices(tmp_path: Path, warnings_logged: Lines) -> None:
    assert "devices may be mixed" in answer_to("device_target", "Ascend", warnings_logged)
    here, elsewhere = nn.Linear(4, 3), nn.Linear(4, 3, device="meta")
    optimizer = torch.optim.SGD(here.parameters(), 0.1)
    with dumping(tmp_path):
        elsewhere(torch.ones(2, 4, device="meta"))
        here(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    ops = {op for _, op, io, _ in files(tmp_path) if io == "output"}
    assert "Default/here-Linear/addmm-op0" in ops
    graph = next(tmp_path.rglob("ms_output_trace_code_graph_0.ir")).read_text()
    assert "Default/elsewhere-Linear/addmm-op0" in graph


# --------------------------------------------------------------- ops


@pytest.mark.document(
    75,
    says="the operator support list, and the syntax of static graphs",
    how="no list is needed: every op that torch dispatches is observed, also one of your own; "
    "`sonde compile-check` tests what `torch.compile` makes of a script",
)
def test_an_op_of_the_program_is_observed_like_torch_s_own(tmp_path: Path) -> None:
    @torch.library.custom_op("sonde_documents::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    weight = nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([weight], 0.1)
    with dumping(tmp_path):
        twice(weight.detach())
        (weight * 3).sum().backward()
        optimizer.step()
    assert any(op.endswith("twice-op0") for _, op, _, _ in files(tmp_path))


@pytest.mark.document(
    93,
    says="`ops.Minimum`, `ops.Cast` in a schedule",
    how="torch's ops; `sonde.ops` answers with their names",
)
def test_ops_of_mindspore() -> None:
    assert "torch.minimum" in imported("sonde.ops", "Minimum")
    assert "tensor.to(dtype)" in imported("sonde.ops", "Cast")
    with pytest.raises(NotHereError, match="min for numbers"):
        _ = sonde.ops.Minimum  # type: ignore[attr-defined]


@pytest.mark.document(
    52,
    says="`kernels` of an asynchronous dump takes TBE, AiCPU and communication ops only",
    how="any op: there are no kinds of kernels",
)
def test_any_op_can_be_named(tmp_path: Path) -> None:
    settings = {
        "dump_mode": 1,
        "path": str(tmp_path / "dump"),
        "net_name": "Net",
        "iteration": "0",
        "input_output": 2,
        "kernels": ["Default/network-Sequential/1-ReLU/relu-op0"],
        "support_device": [0],
        "op_debug_mode": 0,
    }
    config = tmp_path / "data_dump.json"
    config.write_text(json.dumps({"common_dump_settings": settings}))
    network = classifier()
    x, y = next(iter(loader()))
    optimizer = sgd(network)
    with sonde.capture(config):
        nn.functional.cross_entropy(network(x), y).backward()
        optimizer.step()
    assert {op for _, op, _, _ in files(tmp_path / "dump")} == set(settings["kernels"])  # type: ignore[call-overload]


@pytest.mark.document(
    196,
    says="a list of ops that Ascend computes in float16 only",
    how="all of them compute in float32 here",
)
def test_ops_of_the_list_compute_in_float32() -> None:
    picture, sequence = torch.randn(1, 2, 8, 8), torch.randn(3, 2, 4)
    volume = torch.randn(1, 2, 4, 4, 4)
    results = [
        nn.functional.adaptive_max_pool2d(picture, 2),
        nn.functional.avg_pool3d(volume, 2),
        nn.functional.max_pool2d(picture, 2),
        nn.LSTM(4, 5)(sequence)[0],
        nn.GRU(4, 5)(sequence)[0],
        nn.Conv2d(2, 3, 3)(picture),
        nn.ConvTranspose2d(2, 3, 3)(picture),
        nn.Conv3d(2, 3, 2)(volume),
        nn.ConvTranspose3d(2, 3, 2)(volume),
        nn.Conv2d(2, 2, 3, groups=2)(picture),
        picture[0, 0] @ picture[0, 1],
        torch.bmm(sequence, sequence.transpose(1, 2)),
        torch.sort(picture)[0],
        torch.topk(picture, 2)[0],
        nn.functional.unfold(picture, 3),
    ]
    assert {each.dtype for each in results} == {torch.float32}


@pytest.mark.document(
    204,
    says="operator tuning and incremental build",
    how='a line says: `torch.compile(mode="max-autotune")`',
)
def test_operator_tuning(warnings_logged: Lines) -> None:
    assert "max-autotune" in answer_to("auto_tune_mode", "RL,GA", warnings_logged)


@pytest.mark.document(
    167,
    says="int4 and uint1 are saved as int8 and uint8",
    how="torch computes nothing in these types, so no op has them",
)
@pytest.mark.parametrize("name", ["int4", "uint1"])
def test_types_in_which_nothing_is_computed(name: str) -> None:
    dtype = getattr(torch, name, None)
    if dtype is None:
        return
    with pytest.raises((RuntimeError, NotImplementedError)):
        torch.zeros(4, dtype=dtype) + 1


# --------------------------------------------------------------- files


@pytest.mark.document(
    47,
    says="`context.set_context(save_graphs=True)`; `hwopt_d_end_graph_0.ir`, "
    "`hwopt_pm_7_getitem_tuple.ir`",
    how="every dump has the graph as it ran, one file `ms_output_trace_code_graph_0.ir`: there are "
    "no compiler passes; a line says so",
)
@pytest.mark.document(
    164,
    says="the second line of types in the .ir file is the device's, with its own formats",
    how="one line for each op: host and device have the same formats",
)
def test_the_graph_files_of_a_dump(tmp_path: Path, warnings_logged: Lines) -> None:
    assert "graphs/*.ir" in answer_to("save_graphs", True, warnings_logged)
    network = classifier()
    x, y = next(iter(loader()))
    optimizer = sgd(network)
    with dumping(tmp_path):
        nn.functional.cross_entropy(network(x), y).backward()
        optimizer.step()
    [graph] = tmp_path.rglob("*.ir")
    assert graph.name == "ms_output_trace_code_graph_0.ir"
    lines = graph.read_text().splitlines()
    ops = [at for at, line in enumerate(lines) if "Fullname with scope" in line]
    types = [line for line in lines if line.lstrip().startswith(": (") and "->" in line]
    assert len(types) == len(ops) > 5


# --------------------------------------------------------------- data, ranks, logs


@pytest.mark.document(
    81,
    says="`mindspore.dataset.TFRecordDataset`",
    how="a reader of MindSpore; the line that says so names the package `tfrecord`",
)
@pytest.mark.parametrize("module", ["sonde.train", "sonde.train.dataset"])
def test_tf_records(module: str) -> None:
    assert "tfrecord" in imported(module, "TFRecordDataset")


class Steps(Callback):
    def __init__(self) -> None:
        self.seen: list[int] = []

    def step_end(self, run_context: Any) -> None:
        self.seen.append(run_context.original_args().cur_step_num)


@pytest.mark.document(
    173,
    says="on a GPU a dump needs `dataset_sink_mode=False`",
    how="accepted; nothing is sunk, a dump has every step either way",
)
@pytest.mark.document(
    206,
    says="on-device execution, `dataset_sink_mode=True`: one result for an epoch",
    how="accepted; data is loaded by the workers of a `DataLoader`, and callbacks see every step",
)
@pytest.mark.document(
    219,
    says="the debugger needs `dataset_sink_mode=False`",
    how="not here: it sees every step either way",
)
@pytest.mark.parametrize("sinks", [True, False])
def test_every_step_is_seen_in_sink_mode(tmp_path: Path, sinks: bool) -> None:
    network = classifier()
    steps = Steps()
    with dumping(tmp_path, ops=("relu",)):
        Model(network, nn.CrossEntropyLoss(), sgd(network)).train(
            1, loader(), callbacks=steps, dataset_sink_mode=sinks
        )
    assert steps.seen == [1, 2, 3, 4]
    assert {step for step, *_ in arrays(tmp_path)} == {0, 1, 2, 3}


@pytest.mark.document(
    199,
    says="gradient aggregation in a training step of your own (`DistributedGradReducer`)",
    how="`DistributedDataParallel` aggregates in `backward()`; the line of the name says so",
)
def test_gradient_aggregation() -> None:
    assert "DistributedDataParallel" in imported("sonde.train.nn", "DistributedGradReducer")


@pytest.mark.document(
    61,
    says="`MS_SUBMODULE_LOG_v` with sub modules of MindSpore's C++ sources",
    how="accepted without effect; Sonde's own are CAPTURE, DUMP, DEBUGGER, ...",
)
def test_sub_modules_of_mindspore_in_the_log_variable(warnings_logged: Lines) -> None:
    listed = (
        "KERNEL PRE_ACT SESSION COMMON DEBUG ANALYZER OPTIMIZER PARALLEL MD PIPELINE PARSER "
        "PYNATIVE PROFILER DEVICE GE_ADPT EXPRESS UTILS VM ME CORE"
    )
    modules = ",".join(f"{name}:2" for name in listed.split())
    environment = {"GLOG_v": "1", "MS_SUBMODULE_LOG_v": f"{{{modules},DUMP:3}}"}
    logs.configure(environment)
    assert warnings_logged() == []
    assert logging.getLogger("sonde").level == logging.INFO
    assert logging.getLogger("sonde.dump").level == logging.ERROR


def test_data_is_loaded_by_workers_of_torch() -> None:
    """What takes the place of a sink: the data of the next step is loaded during this one."""
    workers = DataLoader(TensorDataset(torch.ones(8, 4), torch.zeros(8).long()), 4, num_workers=1)
    network = classifier()
    steps = Steps()
    Model(network, nn.CrossEntropyLoss(), sgd(network)).train(1, workers, steps)
    assert steps.seen == [1, 2]


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("Tensor", "from torch import tensor as Tensor"),
        ("Parameter", "from torch.nn import Parameter"),
        ("communication", "torch.distributed.init_process_group()"),
    ],
)
def test_names_of_the_documents_that_pytorch_has_elsewhere(name: str, instead: str) -> None:
    assert instead in imported("sonde.train", name)
