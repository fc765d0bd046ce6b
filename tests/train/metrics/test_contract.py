"""The contract of metrics, their names, and torchmetrics objects among them."""

from __future__ import annotations

import json
import math
import pickle

import numpy as np
import pytest
import torch
import torchmetrics
from hypothesis import given
from hypothesis import strategies as st

from sonde.core.errors import SondeError
from sonde.train import Model
from sonde.train.metrics import (
    F1,
    MAE,
    MSE,
    Accuracy,
    Loss,
    Metric,
    MetricInputError,
    MetricValue,
    Precision,
    Recall,
    TorchMetric,
    get_metric_fn,
    get_metrics,
    names,
    rearrange_inputs,
)

REFERENCE_NAMES = [
    "F1",
    "acc",
    "accuracy",
    "auc",
    "bleu_score",
    "confusion_matrix",
    "confusion_matrix_metric",
    "cosine_similarity",
    "dice",
    "hausdorff_distance",
    "loss",
    "mae",
    "mean_surface_distance",
    "mse",
    "occlusion_sensitivity",
    "perplexity",
    "precision",
    "recall",
    "roc",
    "root_mean_square_distance",
    "top_1_accuracy",
    "top_5_accuracy",
    "topk",
]


class MyMAE(Metric):
    """The user class of the reference's own documentation."""

    def __init__(self):
        super().__init__()
        self.clear()

    def clear(self):
        self._abs_error_sum = 0
        self._samples_num = 0

    @rearrange_inputs
    def update(self, *inputs):
        y_pred = inputs[0].numpy()
        y = inputs[1].numpy()
        self._abs_error_sum += np.abs(y - y_pred).sum()
        self._samples_num += y.shape[0]

    def eval(self):
        return self._abs_error_sum / self._samples_num


@pytest.mark.document(
    31,
    says="define your own metrics class by inheriting the `Metric` base class: `clear`, `update`, "
    "`eval`",
    how="`sonde.train.Metric`, the same three methods",
)
def test_a_user_class_applies_set_indexes():
    x = torch.tensor([[0.1, 0.2, 0.6, 0.9], [0.1, 0.2, 0.6, 0.9]])
    y = torch.tensor([[0.1, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1, 0.1]])
    y2 = torch.tensor([[0.1, 0.25, 0.7, 0.9], [0.1, 0.25, 0.7, 0.9]])
    metric = MyMAE().set_indexes([0, 2])
    metric.update(x, y, y2)
    assert metric.indexes == [0, 2]
    assert metric.eval() == pytest.approx(0.15)


def test_a_built_in_metric_applies_set_indexes():
    labels, scores = torch.tensor([1, 0]), torch.tensor([[0.1, 0.9], [0.8, 0.2]])
    assert Accuracy().set_indexes([2, 0])(labels, None, scores) == 1


def test_indexes_that_are_no_list_of_integers_or_out_of_range_are_refused():
    with pytest.raises(ValueError, match="list of integers"):
        Accuracy().set_indexes((0, 1))
    with pytest.raises(ValueError, match="list of integers"):
        Accuracy().set_indexes([0.0, 1])
    with pytest.raises(MetricInputError, match=r"indexes \[0, 2\] do not fit 2 inputs"):
        Accuracy().set_indexes([0, 2]).update(torch.zeros(1, 2), torch.zeros(1))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (2 / 3, "0.6667"),
        (1, "1.0"),
        (0, "0.0"),
        (-0.0, "-0.0"),
        (0.75, "0.75"),
        (0.1 + 0.2, "0.3"),
        (0.03749999031, "0.0375"),
        (1.23456789e-7, "1.2346e-07"),
        (1e-5, "1e-05"),
        (2.231443166940565, "2.2314"),
        (123456.789012, "123456.789"),
        (1234567.5, "1234567.5"),
        (-2 / 3, "-0.6667"),
        (math.nan, "nan"),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
    ],
)
def test_a_value_prints_four_decimals(value: float, shown: str):
    assert str(MetricValue(value)) == shown
    assert pickle.loads(pickle.dumps(str(MetricValue(value)))) == shown
    assert str(f"{MetricValue(value)}") == repr(float(value))


@pytest.mark.document(
    12,
    says="`SaveCallback`: save the model with the maximum accuracy, as `str(self.acc) + '.ckpt'`",
    how="the example runs; names have all digits of the accuracy; `SaveBest` is ready-made",
)
def test_two_values_that_print_alike_give_two_file_names():
    one, other = MetricValue(0.12345), MetricValue(0.12346)
    assert str(one) == str(other)
    assert str(one) + ".ckpt" == "0.12345.ckpt" != str(other) + ".ckpt"
    assert "best-" + str(one) == "best-0.12345"
    assert f"{other}.ckpt" == "0.12346.ckpt"


@given(st.floats(allow_nan=False, min_value=-1e300, max_value=1e300))
def test_a_value_is_the_exact_float_in_everything_but_print(value: float):
    number = MetricValue(value)
    assert number == value
    assert hash(number) == hash(value)
    assert repr(number) == repr(value)
    assert f"{number:.17g}" == f"{value:.17g}"
    assert float(repr(number)) == value
    assert type(number + 1) is float
    assert pickle.loads(pickle.dumps(number)) == value
    if math.isfinite(value):
        assert json.loads(json.dumps(number)) == value
        assert float(str(number)) == pytest.approx(value, rel=1e-4, abs=5.1e-5)


@pytest.mark.document(
    30,
    says="MindSpore provides multiple metrics",
    how="all names of MindSpore's, and torchmetrics objects: docs/metrics.md",
)
def test_every_name_of_the_reference_is_there_and_tolerance_too():
    assert set(REFERENCE_NAMES) <= set(names())
    assert {"tolerance", "bleu", "Fbeta"} <= set(names())
    assert names() == sorted(names())


@pytest.mark.parametrize("name", sorted(set(names()) - {"topk", "Fbeta"}))
def test_every_name_gives_a_metric_that_wants_data_first(name: str):
    metric = get_metrics({name})[name]
    assert isinstance(metric, Metric)
    with pytest.raises(RuntimeError, match="metric-empty"):
        metric.eval()


def test_arguments_reach_the_metric_made_by_name():
    assert get_metric_fn("topk", 3).k == 3
    assert get_metric_fn("precision", eval_type="multilabel").eval_type == "multilabel"


@pytest.mark.document(25)
def test_an_unknown_name_is_a_key_error_with_the_nearest_name():
    with pytest.raises(KeyError, match="did you mean 'accuracy'") as caught:
        get_metric_fn("acuracy")
    assert str(caught.value).endswith("[metric-unknown]")
    assert isinstance(caught.value, SondeError)


def test_a_name_that_needs_an_argument_says_so():
    with pytest.raises(SondeError, match=r"TopKCategoricalAccuracy\(k=3\)"):
        get_metrics({"topk"})


@pytest.mark.document(
    25,
    says='metrics={"accuracy"}: metrics by name',
    how="the same; a mistyped name gets the nearest one",
)
def test_a_set_of_names_comes_out_in_one_order_on_every_rank():
    assert list(get_metrics({"recall", "loss", "accuracy"})) == ["accuracy", "loss", "recall"]
    assert list(get_metrics(["recall", "loss"])) == ["recall", "loss"]
    assert get_metrics(None) == {}


def test_a_dict_may_mix_metrics_and_torchmetrics_objects():
    theirs = torchmetrics.MeanAbsoluteError()
    metrics = get_metrics({"mine": MyMAE(), "theirs": theirs, "loss": Loss()})
    assert isinstance(metrics["theirs"], TorchMetric)
    assert metrics["theirs"].metric is theirs


@pytest.mark.parametrize("bad", ["accuracy", 3, {"accuracy": 1}, {1: Loss()}, {"loss": Loss}])
def test_anything_else_is_a_type_error(bad):
    with pytest.raises(TypeError):
        get_metrics(bad)


@pytest.mark.document(30)
def test_a_torchmetrics_object_is_used_as_it_is():
    metric = TorchMetric(torchmetrics.MeanSquaredError())
    with pytest.raises(RuntimeError, match="MeanSquaredError has seen no samples"):
        metric.eval()
    metric.update(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]))
    assert metric.eval() == 2
    assert isinstance(metric.eval(), MetricValue)
    metric.clear()
    with pytest.raises(RuntimeError):
        metric.eval()
    assert metric(torch.tensor([3.0]), torch.tensor([0.0])) == 9


def test_a_torchmetrics_collection_gives_a_dict_of_plain_values():
    collection = torchmetrics.MetricCollection(
        {
            "error": torchmetrics.MeanAbsoluteError(),
            "matrix": torchmetrics.ConfusionMatrix(task="binary"),
        }
    )
    value = TorchMetric(collection)(torch.tensor([1, 0, 1]), torch.tensor([1, 1, 1]))
    assert value["error"] == pytest.approx(1 / 3)
    assert value["matrix"].tolist() == [[0, 0], [1, 2]]


def test_only_torchmetrics_objects_are_wrapped():
    with pytest.raises(TypeError, match="torchmetrics object"):
        TorchMetric(MAE())


@pytest.mark.document(
    24,
    says="a metrics dictionary object: nn.Accuracy(), nn.Loss(), nn.Precision(), nn.Recall(), "
    "nn.F1()",
    how="the same classes from `sonde.train`, under the keys you give",
)
def test_the_documents_dict_of_metrics_evaluates_a_model():
    torch.manual_seed(0)
    net = torch.nn.Linear(4, 3)
    data = [(torch.randn(5, 4), torch.randint(0, 3, (5,))) for _ in range(3)]
    metrics = {
        "accuracy": Accuracy(),
        "loss": Loss(),
        "precision": Precision(),
        "recall": Recall(),
        "f1_score": F1(),
        "theirs": torchmetrics.Accuracy(task="multiclass", num_classes=3),
    }
    model = Model(net, loss_fn=torch.nn.CrossEntropyLoss(), metrics=metrics)
    output = model.eval(data)
    scores, labels = torch.cat([net(x) for x, _ in data]), torch.cat([y for _, y in data])
    right = (scores.argmax(1) == labels).double().mean()
    assert output["accuracy"] == float(right)
    assert output["theirs"] == pytest.approx(float(right))
    losses = [torch.nn.functional.cross_entropy(net(x), y).item() for x, y in data]
    assert output["loss"] == pytest.approx(sum(losses) / 3)
    assert output["precision"].shape == output["recall"].shape == output["f1_score"].shape == (3,)


def test_metrics_survive_a_pickle_as_data_loaders_and_launchers_need():
    metric = MSE()
    metric.update([1.0, 2.0], [1.0, 4.0])
    assert pickle.loads(pickle.dumps(metric)).eval() == 2
