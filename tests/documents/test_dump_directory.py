"""The files of a dump with the configuration of the document about Dump, read as it says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.documents import alexnet
from tests.documents.alexnet import CONV3, dump, file_of, new_network
from torch import nn

import sonde
from sonde.dump.reader import Dump


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven steps with the document's own configuration, of which 0, 5 and 6 are chosen."""
    return dump(tmp_path_factory.mktemp("document") / "absolute_path", steps=7)


@pytest.mark.document(
    152,
    says="directory structure {path}/rank_{rank_id}/{net_name}/{graph_id}/{iteration_id}/",
    how="the same; `sonde show DIR` lists what is in it",
)
def test_the_directories_are_those_of_the_document(root: Path) -> None:
    assert root.name == "rank_0"
    assert {file.name for file in root.iterdir()} == {
        ".dump_metadata",
        "ResNet50",
        "graphs",
        "execution_order",
    }
    steps = {str(file.parent.relative_to(root)) for file in root.glob("ResNet50/*/*/*.npy")}
    assert steps == {
        "ResNet50/0/0",
        "ResNet50/0/5",
        "ResNet50/0/constants",
        "ResNet50/1/6",
        "ResNet50/1/constants",
    }


@pytest.mark.document(
    153,
    says="`.dump_metadata` records the original training information, `data_dump.json` the dump "
    "configuration",
    how="the same files; `config.json` has the versions",
)
def test_the_metadata_has_the_configuration_as_it_was_given(root: Path) -> None:
    given = root.parent.with_suffix(".json").read_text()
    assert (root / ".dump_metadata" / "data_dump.json").read_text() == given
    facts = json.loads((root / ".dump_metadata" / "config.json").read_text())
    assert facts["framework_version"] == torch.__version__


@pytest.mark.document(
    154,
    says="{op_type}.{op_name}.{task_id}.{stream_id}.{timestamp}.{input_output_index}.{slot}."
    "{format}.{dtype}.npy",
    how="the same names, with scope: "
    "`convolution.Default_network-Net_conv3-Conv2d_convolution-op0...`",
)
def test_the_names_of_files_are_those_of_the_document(root: Path) -> None:
    files = [file.name for file in (root / "ResNet50" / "0" / "5").iterdir()]
    form = re.compile(
        r"(?P<type>\w+)\.(?P<name>[\w-]+)\.0\.0\.\d{16}\.(input|output)\.\d+\.DefaultFormat\."
        r"(Float32|Int64|Bool)\.npy"
    )
    assert all(form.fullmatch(name) for name in files)
    conv3 = [name for name in files if "conv3-Conv2d_convolution-op0." in name]
    assert [re.sub(r"\d{16}", "TIME", name) for name in sorted(conv3)] == [
        "convolution.Default_network-AlexNet_conv3-Conv2d_convolution-op0.0.0.TIME."
        f"{place}.DefaultFormat.Float32.npy"
        for place in ("input.0", "input.1", "output.0")
    ]


@pytest.mark.document(
    155,
    says="read and parse dump data through `numpy.load`",
    how="the same; `sonde show DIR --op NAME --values` prints them",
)
def test_numpy_load_reads_the_files(root: Path) -> None:
    step = root / "ResNet50" / "0" / "5"
    images, weight, output = (
        torch.from_numpy(np.load(file_of(step, f"_conv3-Conv2d_convolution-op0.0.0.*.{place}")))
        for place in ("input.0", "input.1", "output.0")
    )
    expected = nn.functional.conv2d(images, weight, padding="same")
    assert torch.allclose(output, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.document(
    156,
    says="constants/Parameter.data-{data_id}.0.0.{timestamp}.output.0.DefaultFormat.{dtype}.npy: "
    "constant data",
    how="the same file for each tensor that the program made outside of the step",
)
def test_constants_have_files_of_their_own(root: Path) -> None:
    file = file_of(root / "ResNet50" / "0" / "constants", "Parameter.data-0.0.0.")
    assert file.name.endswith(".output.0.DefaultFormat.Float32.npy")
    assert np.load(file) == 6.0


@pytest.mark.document(
    157,
    says="files starting with `Parameter`: parameters such as weight and bias",
    how="`Parameter.conv3_weight...npy`, the value when its first reader ran",
)
def test_parameters_have_files(root: Path) -> None:
    network = new_network()
    step = root / "ResNet50" / "0" / "0"
    found = {
        file.name.split(".")[1]: np.load(file)
        for file in step.glob("Parameter.*.output.0.*.Float32.npy")
    }
    assert {name.replace(".", "_") for name, _ in network.named_parameters()} <= set(found)
    assert np.array_equal(found["conv3_weight"], network.conv3.weight.detach().numpy())


@pytest.mark.document(
    158,
    says="`ms_output_trace_code_graph_{graph_id}.pb` and `.ir`: the final execution graph files",
    how="both files, for each structure of a step",
)
@pytest.mark.document(
    109,
    says="Graph IR Dump, Execution Sequence Dump",
    how="every dump writes `graphs/` and `execution_order/`",
)
def test_every_graph_is_written_as_text_and_for_programs(root: Path) -> None:
    assert sorted(file.name for file in (root / "graphs").iterdir()) == [
        f"ms_output_trace_code_graph_{number}.{kind}" for number in (0, 1) for kind in ("ir", "pb")
    ]
    text = (root / "graphs" / "ms_output_trace_code_graph_0.ir").read_text()
    graph = Dump(root).graph(0)
    assert all(f"# Fullname with scope: ({op.name})" in text for op in graph.ops)
    assert sorted(file.name for file in (root / "execution_order").iterdir()) == [
        f"ms_{kind}_graph_{number}.csv"
        for kind in ("execution_order", "global_execution_order")
        for number in (0, 1)
    ]


@pytest.mark.document(
    159,
    says="`ms_execution_order_graph_{graph_id}.csv`: the node execution sequence file",
    how="the same file and header, one op per line in the order they ran",
)
def test_the_execution_order_lists_the_ops_as_they_ran(root: Path) -> None:
    file = root / "execution_order" / "ms_execution_order_graph_0.csv"
    header, *names = file.read_text().splitlines()
    assert header == "NodeExecutionOrder-FullNameWithScope"
    forward = [name.rpartition("/")[2] for name in names if name.startswith("Default/network-")]
    assert [name for name in forward if "detach" not in name][:6] == [
        "convolution-op0",
        "relu-op0",
        "max_pool2d_with_indices-op0",
        "convolution-op0",
        "relu-op1",
        "convolution-op0",
    ]
    assert names.index(CONV3) < names.index("Gradients/" + CONV3.replace("-op", "_backward-op"))


@pytest.mark.document(
    160,
    says="`ms_global_execution_order_graph_{graph_id}.csv`: the list of iterations in which the "
    "graph was executed",
    how="the same file: the observed steps of the graph, one per line",
)
@pytest.mark.document(
    161,
    says="multi-graph networks: due to the control flow some subgraphs may not be executed",
    how="a step whose ops differ has a {graph_id} of its own",
)
def test_a_step_with_other_ops_is_another_graph(root: Path) -> None:
    order = root / "execution_order"
    assert (order / "ms_global_execution_order_graph_0.csv").read_text() == "0\n5\n"
    assert (order / "ms_global_execution_order_graph_1.csv").read_text() == "6\n"
    assert sorted(path.name for path in (root / "ResNet50" / "1").iterdir()) == ["6", "constants"]
    first, second = ({op.name for op in Dump(root).graph(number).ops} for number in (0, 1))
    assert "Default/mul-op0" in second - first


@pytest.mark.document(
    163,
    says="the content of the `.ir` file: input and output of the operator, operator name, "
    "`# In file ...(175)/ x = self.conv3(x)/`",
    how="the same lines; the attributes are those of the torch op",
)
@pytest.mark.document(
    165,
    says="find multiple operator information corresponding to the line of code, then the file",
    how="search the `.ir` for the line; `sonde show --op`; in the page: by code line",
)
def test_a_line_of_code_leads_to_the_operator_and_to_its_file(root: Path) -> None:
    text = (root / "graphs" / "ms_output_trace_code_graph_0.ir").read_text()
    parts = re.split(r"(?m)^  (?=%\d+\()", text)
    of_the_line = [part for part in parts if re.search(r"\(\d+\)/ *x = self\.conv3\(x\)/", part)]
    names = [re.search(r"Fullname with scope: \((.+)\)", part)[1] for part in of_the_line]  # type: ignore[index]
    assert names == [CONV3, "Gradients/" + CONV3.replace("-op", "_backward-op")]
    lines = of_the_line[0].splitlines()
    assert re.match(
        r"%\d+\(equiv_convolution-op0\) = convolution\(.*, %para\d+_conv3\.weight", lines[0]
    )
    assert "primitive_attrs: {" in lines[0]
    assert "padding: [1, 1]" in lines[0]
    assert lines[1].strip() == (
        ": (<Tensor[Float32], (2, 6, 4, 4)>, <Tensor[Float32], (4, 6, 3, 3)>)"
        " -> (<Tensor[Float32], (2, 4, 4, 4)>)"
    )
    line = re.search(r"# In file (.+)\((\d+)\)/", of_the_line[0])
    assert line is not None
    assert line[1] == alexnet.__file__
    assert Path(line[1]).read_text().splitlines()[int(line[2]) - 1].strip() == "x = self.conv3(x)"
    output = file_of(root / "ResNet50" / "0" / "0", f"{names[0].replace('/', '_')}.0.0.*.output.0")
    assert np.load(output).shape == (2, 4, 4, 4)


@pytest.mark.document(45)
def test_an_op_with_a_long_name_is_dumped(tmp_path: Path) -> None:
    part = "a" * 200
    network = nn.ModuleDict({part: nn.ModuleDict({part: nn.Tanh()})})
    (tmp_path / "dump.json").write_text(
        alexnet.CONFIGURATION.replace("/absolute_path", str(tmp_path / "out"))
    )
    with sonde.capture(tmp_path / "dump.json", step_by="manual"):
        result = network[part][part](torch.ones(3))  # type: ignore[index]
        sonde.step()
    step = tmp_path / "out" / "rank_0" / "ResNet50" / "0" / "0"
    assert f"{part}-ModuleDict/{part}-Tanh/tanh-op0" in (step / "mapping.csv").read_text()
    (record,) = Dump(tmp_path / "out").tensors(op="tanh", io="output")
    assert record.key.op.endswith(f"{part}-ModuleDict/{part}-Tanh/tanh-op0")
    assert np.array_equal(record.numpy(), result.numpy())
