import pytest
from tests.profile.made import MACHINE, event, graph, line, node, trace

from sonde.profile.analyse.memory import measure_memory, thinned
from sonde.profile.analyse.overview import without_outliers
from sonde.profile.analyse.tables import line_items, module_tree, op_items, shapes_text, timeline
from sonde.profile.analyse.timings import Timings, idle_rest, time_steps
from sonde.profile.record.events import TraceEvent

LAYER = "Default/network-Net/fc-Linear"
MM = node(
    "mm",
    "mm0",
    inputs=[("x", "float32", (64, 64)), ("w", "float32", (64, 64))],
    scope=LAYER,
    source=line(10),
)
RELU = node("relu", "relu0", inputs=[("mm0", "float32", (64, 64))], source=line(11))
BACK = node(
    "mm",
    "mm1",
    inputs=[("g", "float32", (64, 64)), ("w", "float32", (64, 64))],
    phase="backward",
    scope=f"Gradients/{LAYER}",
    source=line(10),
)
SGD = node("add_", "add0", phase="optimizer", scope="Default/optimizer-SGD", source=line(20))
GRAPH = graph([MM, RELU, BACK, SGD])


def step_events(slow: int = 0) -> list[TraceEvent]:
    return [
        event("aten::mm", 100_000, 200_000 + slow),
        event("aten::relu", 250_000 + slow, 300_000 + slow),
        event("autograd::engine::evaluate_function: MmBackward0", 410_000 + slow, 600_000 + slow),
        event("aten::mm", 420_000 + slow, 580_000 + slow),
        event("aten::add_", 710_000 + slow, 730_000 + slow),
        event("aten::strange", 900_000 + slow, 950_000 + slow),
    ]


def timings(*slow: int) -> Timings:
    steps = [
        trace(
            step_events(extra),
            end=1_000_000 + extra,
            number=6 + index,
            backwards=[(400_000 + extra, 650_000 + extra)],
            optimizers=[(700_000 + extra, 800_000 + extra)],
        )
        for index, extra in enumerate(slow)
    ]
    return time_steps(steps, GRAPH)


@pytest.mark.document(
    201,
    says="a single operator takes a long time, and varies in different shapes or data types",
    how="`sonde profile train.py`: time, calls, shapes and types of each op, and its share of the "
    "machine",
)
def test_ops_have_own_time_the_way_to_them_and_the_share_of_the_machine() -> None:
    made = timings(0, 0)
    rows = {(row.op, row.phase): row for row in op_items(made, MACHINE)}
    forward = rows["mm", "forward"]
    assert forward.seconds == pytest.approx(100e-6)
    assert forward.calls == 1
    assert forward.flops == 2 * 64**3
    assert forward.nbytes == 3 * 4 * 64 * 64
    # 524,288 operations take 5.2 us at 100 GFLOP/s, 49,152 bytes 4.9 us at 10 GB/s.
    assert forward.share_of_machine == pytest.approx(5.24288e-6 / 100e-6)
    assert forward.module == LAYER
    assert rows["relu", "forward"].python_seconds == pytest.approx(50e-6)
    assert rows["mm", "backward"].python_seconds == pytest.approx(20e-6)  # since backward began
    assert rows["strange", "rest"].seconds == pytest.approx(50e-6)


def test_one_disturbed_step_of_three_does_not_show_in_what_is_usual() -> None:
    made = timings(0, 5_000_000, 0)
    assert made.ops["mm0"].usual_seconds == pytest.approx(100e-6)
    assert made.seconds == pytest.approx((1e-3 * 3 + 5e-3) / 3)
    assert made.usual_seconds < 1e-3
    assert made.usual_part_seconds("forward") == pytest.approx(200e-6)


def test_modules_and_code_outside_of_them_add_up_to_the_step() -> None:
    tree = module_tree(timings(0))
    assert tree.forward + tree.backward == pytest.approx(1e-3)
    network = next(child for child in tree.children if child.name == "network")
    layer = network.children[0]
    assert (network.kind, layer.name, layer.kind) == ("Net", "fc", "Linear")
    assert layer.forward == pytest.approx(100e-6)
    assert layer.backward == pytest.approx(180e-6)
    assert network.forward == pytest.approx(layer.forward + 100e-6)
    assert any(child.name == "optimizer" for child in tree.children)


def test_lines_have_backward_too() -> None:
    rows = {row.place.line: row for row in line_items(timings(0), {line(99): 0.5})}
    assert rows[10].forward == pytest.approx(100e-6)
    assert rows[10].backward == pytest.approx(180e-6)
    assert rows[20].optimizer == pytest.approx(30e-6)
    assert rows[99].other == 0.5
    assert next(iter(rows)) == 99


def test_the_rest_is_idle_where_no_op_runs() -> None:
    step = timings(0).steps[0]
    assert idle_rest(step) == [
        (0, 100_000),
        (650_000, 700_000),
        (800_000, 900_000),
        (950_000, 1_000_000),
    ]


def test_the_timeline_has_every_part_and_op_of_one_step() -> None:
    item = timeline(timings(0, 9_000, 1_000))
    assert item.step == 8  # the middle one
    assert item.parts[0] == ("rest", 0.0, 0.0001)
    assert [op[0] for op in item.ops] == ["mm", "relu", "mm", "add_"]


def test_shapes_are_short_and_few() -> None:
    assert shapes_text(MM) == "f32[64,64] f32[64,64]"
    many = node("cat", "c", inputs=[(None, "bfloat16", (2,))] * 6)
    assert shapes_text(many) == "bf16[2] bf16[2] bf16[2] bf16[2] and 2 more"


def test_memory_is_the_allocations_of_the_ops_that_made_them() -> None:
    made = trace(
        step_events(),
        end=1_000_000,
        backwards=[(400_000, 650_000)],
        memory=[(110_000, 400), (260_000, 100), (450_000, 300), (500_000, -100), (590_000, -400)],
    )
    item = measure_memory(time_steps([made], GRAPH).steps[0], resident=7)
    assert (item.peak, item.peak_part, item.resident) == (800, "backward", 7)
    assert item.peak_at == pytest.approx(450e-6)
    assert item.timeline[-1] == (pytest.approx(590e-6), 300)
    assert item.modules == {LAYER: 700, "Default/network-Net": 100}


def test_memory_of_blocks_that_are_older_than_the_step_counts_below_zero() -> None:
    made = trace(step_events(), end=1_000_000, memory=[(5, -500), (110_000, 200)])
    item = measure_memory(time_steps([made], GRAPH).steps[0], resident=0)
    assert item.peak == 0
    assert item.timeline == ((0.0, 0), (pytest.approx(5e-9), -500), (pytest.approx(110e-6), -300))


def test_a_thinned_line_keeps_its_extremes() -> None:
    points = [(i, (i * 7919) % 1000) for i in range(5000)]
    kept = thinned(points)
    assert len(kept) <= 600
    assert kept == sorted(kept)
    assert {max(p[1] for p in kept), min(p[1] for p in kept)} == {999, 0}


def test_ops_of_a_dataset_are_data_and_other_time_of_their_line() -> None:
    select = node("select", "select0", source=line(30))
    step = trace(
        [
            event("enumerate(DataLoader)#_SingleProcess", 0, 50_000, is_range=True),
            event("aten::select", 10_000, 30_000),
            event("aten::mm", 100_000, 200_000),
        ],
        end=1_000_000,
    )
    made = time_steps([step], graph([select, MM]))
    rows = {row.op: row.phase for row in op_items(made, MACHINE)}
    assert rows == {"select": "data", "mm": "forward"}
    loading = next(row for row in line_items(made, {line(30): 30e-6}) if row.place.line == 30)
    assert (loading.forward, loading.calls) == (0.0, 1.0)
    assert loading.other == pytest.approx(50e-6)


def test_delayed_steps_are_left_out_of_the_means() -> None:
    made = timings(0, 0, 5_000_000, 0, 0)
    even = without_outliers(made, GRAPH)
    assert [step.trace.number for step in even.steps] == [6, 7, 9, 10]
    assert even.seconds == pytest.approx(1e-3)
    assert {row.op: row.calls for row in op_items(even, MACHINE)}["relu"] == 1
    same = timings(0, 10_000, 20_000, 0)
    assert without_outliers(same, GRAPH) is same
