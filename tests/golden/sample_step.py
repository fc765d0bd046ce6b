"""A captured step with one of everything that its files can hold."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch

from sonde.adapters.torch.replay.storage.tensor_files import TensorWriter, write_tensors
from sonde.replay.manifest import (
    FORMAT,
    CapturedOp,
    Manifest,
    StoredAttribute,
    StoredAutocast,
    StoredBackward,
    StoredBuffer,
    StoredCall,
    StoredGroup,
    StoredLine,
    StoredModule,
    StoredOptimizer,
    StoredOutput,
    StoredParameter,
    StoredPrior,
    StoredProgram,
    StoredRandom,
    StoredReason,
    StoredScaler,
    StoredTrigger,
    encode_manifest,
)
from sonde.replay.stored_values import (
    BytesValue,
    InstanceValue,
    KeptValue,
    MappingValue,
    MissingValue,
    NameValue,
    NumberValue,
    PlainValue,
    SequenceValue,
    TensorValue,
)
from sonde.replay.tensor_table import CapturedTensor


def sample_manifest(tensors: list[CapturedTensor]) -> Manifest:
    line = StoredLine(file="train.py", line=12, function="train")
    autocast = [StoredAutocast(device="cpu", is_enabled=True, dtype="bfloat16", is_cached=True)]
    random = StoredRandom(cpu=0, python=SequenceValue("tuple", [PlainValue(3)]))
    root = KeptValue(2, 0, requires_grad=True)
    call = StoredCall(
        module=0,
        args=SequenceValue("tuple", [KeptValue(0, 1), NumberValue("float", "nan")]),
        kwargs=MappingValue([(PlainValue("mask"), InstanceValue("dataclass", "net:Mask", {}))]),
        random=random,
        autocast=autocast,
        has_gradients=True,
        training=[True, False],
        requires_grad=[True],
        buffers=[StoredBuffer(module="norm", name="running_mean", index=2)],
        attributes=[StoredAttribute(module="", name="calls", value=PlainValue(7))],
        outputs=[StoredOutput(path=SequenceValue("tuple", []), tensor=KeptValue(1), gradient=1)],
        line=line,
    )
    op = CapturedOp(
        function="torch.nn.functional.cross_entropy",
        name="cross_entropy",
        args=SequenceValue("tuple", [KeptValue(1), NameValue("dtype", "float32")]),
        kwargs=MappingValue([(PlainValue("data"), BytesValue(b"\x00\xff"))]),
        results=root,
        has_gradients=True,
        autocast=[],
        line=line,
    )
    backward = StoredBackward(
        is_connected=True,
        roots=SequenceValue("tuple", [root]),
        gradients=SequenceValue("tuple", [PlainValue(None)]),
    )
    return Manifest(
        format=FORMAT,
        step=412,
        rank=0,
        versions={"sonde": "0.1.0", "torch": "2.13.0"},
        program=StoredProgram(file="/train.py", arguments=["--lr", "0.1"], digest="00ff"),
        flags={"threads": 2},
        accumulation=1,
        trigger=StoredTrigger(
            kind="non-finite", step=412, quantity="loss", value="NaN", text="the loss is nan"
        ),
        signals={"loss": "NaN", "grad_norm": 0.5},
        tensors=tensors,
        modules=[
            StoredModule(
                name="Default/network-Net",
                of="__main__:Net",
                parameters=[StoredParameter(name="weight", index=0, gradient=TensorValue(1))],
                buffers={"norm.running_mean": 2},
                object=0,
            )
        ],
        events=[call, op, backward],
        prior_gradients=[StoredPrior(parameter=0)],
        optimizer=StoredOptimizer(
            of="torch.optim.sgd:SGD",
            groups=[StoredGroup(parameters=[0], settings={"lr": PlainValue(0.1)})],
            state={"0": MissingValue("net:State", "TypeError: no")},
        ),
        scaler=StoredScaler(device="cuda", scale=65536.0),
        unreplayable=[StoredReason(kind="closure", subject="LBFGS")],
    )


def captured_step_files() -> dict[str, bytes]:
    """The manifest and a file of tensors: a weight, a view of it, a transposed one, bfloat16."""
    weight = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    writer = TensorWriter()
    writer.add(weight, "weights", "weight")
    writer.add(weight[:, 1:], "weights", "view")
    writer.add(torch.arange(4.0).reshape(2, 2).t(), "weights", "transposed")
    writer.add(torch.ones(3, dtype=torch.bfloat16), "weights", "low")
    with tempfile.TemporaryDirectory() as folder:
        table, weights = writer.collected()
        write_tensors(Path(folder), weights)
        data = Path(folder, "weights.safetensors").read_bytes()
    return {
        "captured_step_manifest.json": encode_manifest(sample_manifest(table)),
        "captured_step_weights.safetensors": data,
    }
