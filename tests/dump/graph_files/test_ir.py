"""Graph text: written for people, read back for its source lines, MindSpore's too."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dump.graph_files.graphs import graphs

from sonde.core.errors import DumpError
from sonde.core.graph import Edge, Graph, OpNode, Source, TensorSpec
from sonde.dump.graph_files.ir import read_ir, read_ir_file, write_ir

DATA = Path(__file__).parents[1] / "data"
NET = "Default/network-WithLossCell/_backbone-GateNet"


def test_an_op_reads_like_the_documents_example() -> None:
    image, weight = (
        TensorSpec("float32", (32, 256, 13, 13)),
        TensorSpec("float32", (384, 256, 3, 3)),
    )
    conv = OpNode(
        "Default/network-AlexNet/conv3-Conv2d/convolution-op12",
        "convolution",
        "Default/network-AlexNet/conv3-Conv2d",
        "forward",
        "op",
        (Edge("x", 0, image), Edge("conv3.weight", 0, weight)),
        (TensorSpec("float32", (32, 384, 13, 13)),),
        (("stride", "[1, 1]"),),
        (Source("./train_alexnet.py", 175, "forward", "        x = self.conv3(x)"),),
    )
    graph = Graph(
        0,
        "AlexNet",
        (
            OpNode("x", "Input", "", "forward", "input", (), (image,)),
            OpNode("conv3.weight", "Parameter", "", "forward", "parameter", (), (weight,)),
            conv,
        ),
    )
    assert write_ir(graph).splitlines()[3:] == [
        "# Total params: 2",
        "# Params:",
        "%para1_x: <Tensor[Float32], (32, 256, 13, 13)>  :  IsWeight: false",
        "%para2_conv3.weight: <Tensor[Float32], (384, 256, 3, 3)>  :  IsWeight: true",
        "",
        "# Total constants: 0",
        "",
        "subgraph @AlexNet() {",
        "  %0(equiv_convolution-op12) = convolution(%para1_x, %para2_conv3.weight)"
        " primitive_attrs: {stride: [1, 1]}",
        "      : (<Tensor[Float32], (32, 256, 13, 13)>, <Tensor[Float32], (384, 256, 3, 3)>)"
        " -> (<Tensor[Float32], (32, 384, 13, 13)>)",
        "      # Fullname with scope: (Default/network-AlexNet/conv3-Conv2d/convolution-op12)",
        "      # Phase: forward",
        "      # In file ./train_alexnet.py(175)/        x = self.conv3(x)/",
        "}",
    ]


@given(graphs())
def test_any_graph_can_be_written_and_read(graph: Graph) -> None:
    read_ir(write_ir(graph))


def test_a_real_file_gives_the_users_line_of_a_forward_op() -> None:
    found = read_ir_file(DATA / "nan_log/dump/rank_0/graphs/ms_output_trace_code_graph_0.ir")
    assert found.inputs == {"inputs0", "inputs1"}
    assert found.sources[f"{NET}/Log-op0"] == (
        Source(
            "/home/me/net/fixtures/public/nan_log/make.py",
            24,
            "construct",
            "        gate = ops.log(x[:, 0:1] + 1.0)",
        ),
    )


def test_a_real_file_gives_backward_ops_the_line_of_their_forward_op() -> None:
    found = read_ir_file(DATA / "nan_log/dump/rank_0/graphs/ms_output_trace_code_graph_0.ir")
    (source,) = found.sources[f"Gradients/{NET}/Grad_Mul/Mul-op0"]
    assert (source.line, source.code) == (25, "        return self.fc2(h * gate)")


def test_library_lines_are_used_if_there_are_no_others() -> None:
    found = read_ir_file(DATA / "nan_log/dump/rank_0/graphs/ms_output_trace_code_graph_0.ir")
    loss = (
        "Default/network-WithLossCell/_loss_fn-SoftmaxCrossEntropyWithLogits/"
        "SparseSoftmaxCrossEntropyWithLogits-op0"
    )
    assert found.sources[loss][0].file.endswith("mindspore/nn/loss/loss.py")


OLD_FORMS = {
    "brackets": "      # In file {file}({line})/{code}/",
    "colon": "      # In file {file}:{line}/{code}/",
}


@pytest.mark.parametrize("form", OLD_FORMS.values(), ids=OLD_FORMS.keys())
def test_older_files_begin_with_the_innermost_line(form: str) -> None:
    lines = [
        "  %0([CNode]8) = Add(%para1_x, %para2_y) primitive_attrs: {}",
        "      : (<Tensor[Float32]x[const vector][]>) -> (<Tensor[Float32]x[const vector][]>)",
        "      : full_name_with_scope: (Default/Add-op1)",
        form.format(file="/home/w/layers.py", line=129, code="    return x / y"),
        form.format(file="demo (2).py", line=14, code="        x = scale(x, y)"),
    ]
    assert read_ir("\n".join(lines)).sources == {
        "Default/Add-op1": (
            Source("/home/w/layers.py", 129, "", "    return x / y"),
            Source("demo (2).py", 14, "", "        x = scale(x, y)"),
        )
    }


def test_newer_files_begin_with_the_outermost_line() -> None:
    lines = [
        "  %0(equiv_x) = Mul(%para1_x, %para2_y)",
        "      # Fullname with scope: (Default/Mul-op0)",
        "      # In file net.py:15~20, 4~16/    def construct(self, x, y):/",
        "      # In file net.py:18~19, 8~43/        if b :/",
        "      # In file net.py:19, 12~43/            b = scale(b, self.func(a, b))/",
        "      # In file net.py:19, 12~20/            b = scale(b, self.func(a, b))/",
        "      # In file ops.py:7~9, 0~5/def scale(a, b):/",
        "      # In file ops.py:8~9, 4~22/    return mul(a,/",
    ]
    assert read_ir("\n".join(lines)).sources["Default/Mul-op0"] == (
        Source("ops.py", 8, "scale", "    return mul(a,"),
        Source("net.py", 19, "construct", "            b = scale(b, self.func(a, b))"),
    )


@given(st.text(max_size=500))
def test_any_text_can_be_read(text: str) -> None:
    read_ir(text)
    read_ir(f"%0\n# Fullname with scope: (a)\n# In file {text}")


def test_a_missing_file_is_a_sonde_error(tmp_path: Path) -> None:
    with pytest.raises(DumpError, match=r"no\.ir: cannot be read"):
        read_ir_file(tmp_path / "no.ir")


def test_bytes_that_are_no_text_do_not_stop_the_reader(tmp_path: Path) -> None:
    path = tmp_path / "x.ir"
    path.write_bytes(b"\xff\xfe%0\n  # Fullname with scope: (a)\n  # In file b(1)/c\xff/\n")
    assert read_ir_file(path).sources["a"][0].line == 1
