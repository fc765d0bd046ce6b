"""``Model``: the hand-written loop's numbers, any dataset, precision, evaluation, errors."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from tests.train.loop.by_hand import Losses, by_hand, train
from tests.train.nets import classifier, data, loader, sgd
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset

from sonde.core.errors import SondeError, UsageError
from sonde.train import (
    Callback,
    History,
    LambdaCallback,
    LossMonitor,
    Model,
    RunContext,
)


def share_right(network: nn.Module) -> float:
    x, y = data()
    return int((network(x).argmax(1) == y).sum()) / len(y)


@pytest.mark.document(
    21,
    says="`model.train(epoch, dataset, callbacks=..., dataset_sink_mode=...)`",
    how="the same; the numbers are those of a hand-written loop, bit for bit",
)
def test_training_equals_the_hand_written_loop_bit_for_bit() -> None:
    expected, weights = by_hand(3, dropout=0.5, shuffle=True)
    network = classifier(dropout=0.5)
    losses = Losses()
    model = Model(network, nn.CrossEntropyLoss(), sgd(network))
    model.train(3, loader(shuffle=True), [losses, LossMonitor(0), History()])
    assert losses.values == expected
    for name, value in network.state_dict().items():
        assert torch.equal(value, weights[name])


class TestAnyIterableIsADataset:
    expected = by_hand()[0]

    def test_a_list_of_tuples(self) -> None:
        assert train(list(loader())) == self.expected

    def test_a_generator(self) -> None:
        assert train(batch for batch in loader()) == self.expected

    def test_numpy_arrays(self) -> None:
        assert train([(x.numpy(), y.numpy()) for x, y in loader()]) == self.expected

    def test_an_iterable_dataset_without_a_length(self) -> None:
        class Stream(IterableDataset[tuple[Tensor, Tensor]]):
            def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
                return iter(loader())

        seen: list[int | None] = []
        look = LambdaCallback(on_train_epoch_end=lambda c: seen.append(c.original_args().batch_num))
        network = classifier()
        model = Model(network, nn.CrossEntropyLoss(), sgd(network))
        model.train(2, DataLoader(Stream(), batch_size=None), look)
        assert seen == [4, 4]

    def test_dicts_with_labels_as_hugging_face_gives_them(self) -> None:
        class Named(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.inner = classifier()

            def forward(self, features: Tensor) -> Tensor:
                return self.inner(features)  # type: ignore[no-any-return]

        for convert in (lambda t: t, lambda t: t.tolist()):
            network = Named()
            losses = Losses()
            batches = [{"features": convert(x), "labels": convert(y)} for x, y in loader()]
            Model(network, nn.CrossEntropyLoss(), sgd(network)).train(1, batches, losses)
            assert losses.values == pytest.approx(self.expected, rel=1e-6)

    def test_a_network_may_return_its_own_loss(self) -> None:
        @dataclasses.dataclass
        class Output:
            loss: Tensor
            logits: Tensor

        class HuggingFaceStyle(nn.Module):
            def __init__(self, wrap: Callable[..., Any]) -> None:
                super().__init__()
                self.inner = classifier()
                self.wrap = wrap

            def forward(self, features: Tensor, labels: Tensor) -> Any:
                logits = self.inner(features)
                return self.wrap(loss=nn.functional.cross_entropy(logits, labels), logits=logits)

        for wrap in (Output, dict, lambda loss, logits: (loss, logits)):
            network = HuggingFaceStyle(wrap)
            losses = Losses()
            batches = [{"features": x, "labels": y} for x, y in loader()]
            model = Model(network, optimizer=sgd(network), metrics={"accuracy", "loss"})
            model.train(1, batches, losses)
            assert losses.values == self.expected
            if wrap in (Output, dict):
                assert model.eval(batches)["accuracy"] == share_right(network.inner)

    def test_a_batch_may_have_several_inputs_before_the_target(self) -> None:
        class Two(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.inner = classifier()

            def forward(self, left: Tensor, right: Tensor) -> Tensor:
                return self.inner(left + right)  # type: ignore[no-any-return]

        network = Two()
        losses = Losses()
        batches = [(x / 2, x / 2, y) for x, y in loader()]
        Model(network, nn.CrossEntropyLoss(), sgd(network)).train(1, batches, losses)
        assert losses.values == self.expected


class TestErrors:
    def test_an_exhausted_iterator_is_reported_in_the_second_epoch(self) -> None:
        with pytest.raises(UsageError, match="no batch in epoch 2: an iterator can be used only"):
            train(iter(list(loader())), epochs=2)

    @pytest.mark.parametrize(
        "batch", [torch.ones(2, 4), (torch.ones(2, 4),), {"features": torch.ones(2, 4)}]
    )
    def test_a_batch_without_a_target_is_explained(self, batch: Any) -> None:
        with pytest.raises(UsageError, match="labels") as caught:
            train([batch])
        assert caught.value.slug == "batch-without-target"

    def test_a_loss_of_many_numbers_is_explained(self) -> None:
        network = classifier()
        model = Model(network, nn.CrossEntropyLoss(reduction="none"), sgd(network))
        with pytest.raises(UsageError, match=r"the loss has the shape \(8,\)"):
            model.train(1, loader())

    def test_a_missing_loss_function_is_explained(self) -> None:
        network = classifier()
        with pytest.raises(UsageError, match="the loss has the shape"):
            Model(network, optimizer=sgd(network)).train(1, [data()[0]])

    def test_a_missing_optimizer_is_noticed_at_the_first_step(self) -> None:
        with pytest.raises(UsageError, match="changed no weight: give Model an optimizer"):
            Model(classifier(), nn.CrossEntropyLoss()).train(1, loader())

    def test_evaluation_needs_metrics(self) -> None:
        with pytest.raises(UsageError, match="no metrics to evaluate"):
            Model(classifier(), nn.CrossEntropyLoss()).eval(loader())

    @pytest.mark.parametrize("epoch", [0, -1, 1.5, "2"])
    def test_an_invalid_number_of_epochs_is_refused(self, epoch: Any) -> None:
        with pytest.raises(SondeError, match="epoch"):
            train(loader(), epochs=epoch)

    @pytest.mark.parametrize(
        "options", [{"amp_level": "O9"}, {"dtype": "int8"}, {"scheduler_every": "hour"}]
    )
    def test_options_that_do_not_exist_are_refused(self, options: dict[str, Any]) -> None:
        with pytest.raises(UsageError):
            Model(classifier(), **options)

    def test_a_network_must_be_a_module(self) -> None:
        with pytest.raises(UsageError, match=r"not a torch\.nn\.Module"):
            Model(lambda x: x)  # type: ignore[arg-type]


class TestEvaluation:
    def test_the_results_and_the_training_mode_of_every_module_are_right_afterwards(self) -> None:
        network = nn.Sequential(
            nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2)
        )
        network[1].eval()  # frozen on purpose: evaluation must not thaw it
        model = Model(network, nn.CrossEntropyLoss(), metrics={"accuracy", "loss"})
        result = model.eval(loader())
        assert [module.training for module in network] == [True, False, True, True]
        network.eval()
        assert result["accuracy"] == share_right(network)
        assert network(data()[0]).requires_grad

    def test_eval_hooks_are_called_in_their_order(self) -> None:
        events: list[str] = []

        class Tell(Callback):
            def on_eval_begin(self, run_context: RunContext) -> None:
                assert run_context.original_args().mode == "eval"
                events.append("begin")

            def on_eval_step_end(self, run_context: RunContext) -> None:
                arguments = run_context.original_args()
                _, prediction, target = arguments.net_outputs
                assert prediction.shape == (16, 2)
                assert target.shape == (16,)
                events.append(f"step {arguments.cur_step_num} of {arguments.batch_num}")

            def on_eval_end(self, run_context: RunContext) -> None:
                events.append(f"end {sorted(run_context.original_args().metrics)}")

        network = classifier()
        Model(network, nn.CrossEntropyLoss(), metrics={"accuracy"}).eval(loader(16), Tell())
        assert events == ["begin", "step 1 of 2", "step 2 of 2", "end ['accuracy']"]

    def test_an_eval_network_of_one_s_own(self) -> None:
        class Evaluate(nn.Module):
            def __init__(self, network: nn.Module) -> None:
                super().__init__()
                self.network = network

            def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
                return y, torch.tensor(4.0), self.network(x)

        network = classifier()
        model = Model(
            network,
            metrics={"accuracy", "loss"},
            eval_network=Evaluate(network),
            eval_indexes=[1, 2, 0],
        )
        result = model.eval(loader())
        assert result["loss"] == 4.0
        assert result["accuracy"] == share_right(network)

    def test_fit_evaluates_when_it_is_due_and_calls_the_callbacks(self) -> None:
        seen: list[tuple[int, Any]] = []
        network = classifier()
        model = Model(network, nn.CrossEntropyLoss(), sgd(network), metrics={"accuracy"})

        def look(context: RunContext) -> None:
            arguments = context.original_args()
            results = arguments.get("eval_results")
            if results is not None:
                assert arguments.metrics == {"accuracy": results["eval_accuracy"]}
            seen.append((arguments.cur_epoch_num, results and list(results)))

        model.fit(4, loader(), loader(), 2, LambdaCallback(on_train_epoch_end=look))
        both = ["eval_accuracy"]
        assert seen == [(1, None), (2, both), (3, None), (4, both)]
        seen.clear()
        model.fit(3, loader(), loader(), [1, 3], LambdaCallback(on_train_epoch_end=look))
        assert seen == [(1, both), (2, None), (3, both)]

    def test_old_hook_names_apply_to_training_inside_fit_and_to_both_phases_outside(self) -> None:
        modes: list[str] = []

        class Old(Callback):
            def begin(self, run_context: RunContext) -> None:
                modes.append(run_context.original_args().mode)

        network = classifier()
        model = Model(network, nn.CrossEntropyLoss(), sgd(network), metrics={"accuracy"})
        model.fit(1, loader(), loader(), callbacks=Old())
        model.eval(loader(), Old())
        assert modes == ["train", "eval"]

    def test_evaluation_inside_training_leaves_the_numbers_alone(self) -> None:
        expected, _ = by_hand(2)
        network = classifier()
        losses = Losses()
        model = Model(network, nn.CrossEntropyLoss(), sgd(network), metrics={"accuracy"})
        evaluate = LambdaCallback(on_train_step_end=lambda c: model.eval(loader()))
        model.train(2, loader(), [evaluate, losses])
        assert losses.values == expected


def test_predict_gives_outputs_without_gradients_and_takes_numpy() -> None:
    network = classifier(dropout=0.5)
    x, _ = data()
    output = Model(network).predict(x.numpy())
    assert network.training
    network.eval()
    assert torch.equal(output, network(x).detach())
    assert not output.requires_grad


def test_the_device_moves_network_and_batches() -> None:
    network = nn.Linear(4, 2)
    seen: list[torch.device] = []

    def loss_fn(output: Tensor, target: Tensor) -> Tensor:
        seen.extend([output.device, target.device])
        return output.sum()

    model = Model(network, loss_fn, sgd(network), device="meta")
    x, y = data(8)
    model.train(1, [(x.numpy(), y)])
    assert {device.type for device in seen} == {"meta"}
    assert network.weight.device.type == "meta"


@pytest.mark.document(
    5,
    says="`cb_params`: loss_fn, optimizer, train_dataset",
    how="the same names",
)
@pytest.mark.document(
    6,
    says="`cb_params`: cur_epoch_num, cur_step_num, batch_num",
    how="the same names, counted from 1",
)
@pytest.mark.document(
    8,
    says="`cb_params.train_network`",
    how="the network; `save_checkpoint(save_obj=cb_params.train_network, ckpt_file_name=...)`",
)
@pytest.mark.document(21)
def test_the_arguments_callbacks_see_are_the_reference_s() -> None:
    seen: dict[str, dict[str, Any]] = {}

    class Look(Callback):
        def on_train_begin(self, run_context: RunContext) -> None:
            seen["begin"] = dict(run_context.original_args())

        def on_train_step_end(self, run_context: RunContext) -> None:
            seen["step"] = dict(run_context.original_args())

    network = classifier()
    optimizer, loss_fn, dataset, look = sgd(network), nn.CrossEntropyLoss(), loader(), Look()
    Model(network, loss_fn, optimizer).train(2, dataset, look, dataset_sink_mode=False)
    names = (
        "batch_num cur_epoch_num cur_step_num epoch_num dataset_sink_mode device_number "
        "initial_step last_save_ckpt_step latest_ckpt_file list_callback loss_fn "
        "loss_scale_mananger mode network optimizer parallel_mode train_dataset train_network"
    )
    assert set(names.split()) <= set(seen["begin"])
    assert "net_outputs" not in seen["begin"]
    last = seen["step"]
    assert (last["cur_epoch_num"], last["cur_step_num"], last["batch_num"]) == (2, 8, 4)
    assert (last["epoch_num"], last["cur_step_in_epoch"]) == (2, 4)
    assert last["network"] is last["train_network"] is network
    assert last["optimizer"] is optimizer
    assert last["loss_fn"] is loss_fn
    assert last["train_dataset"] is dataset
    assert last["list_callback"] == [look]
    assert torch.equal(last["train_dataset_element"][1], data()[1][-8:])
    assert (last["mode"], last["parallel_mode"], last["device_number"]) == (
        "train",
        "stand_alone",
        1,
    )


def test_an_initial_epoch_starts_the_counts_there() -> None:
    seen: list[tuple[int, int]] = []

    def look(context: RunContext) -> None:
        seen.append((context.original_args().cur_epoch_num, context.original_args().cur_step_num))

    network = classifier()
    model = Model(network, nn.CrossEntropyLoss(), sgd(network))
    model.train(3, loader(), LambdaCallback(on_train_epoch_end=look), initial_epoch=1)
    assert seen == [(2, 8), (3, 12)]


def test_a_distributed_sampler_gets_the_epoch() -> None:
    sampler: torch.utils.data.DistributedSampler[Any] = torch.utils.data.DistributedSampler(
        range(8),  # type: ignore[arg-type]
        num_replicas=2,
        rank=0,
        shuffle=True,
    )
    order: list[list[int]] = []
    dataset = DataLoader(torch.utils.data.TensorDataset(*data(8)), batch_size=2, sampler=sampler)
    network = classifier()
    model = Model(network, nn.CrossEntropyLoss(), sgd(network))
    hook = LambdaCallback(on_train_epoch_end=lambda c: order.append(list(sampler)))
    model.train(2, dataset, hook)
    sampler.set_epoch(1)
    assert order[1] == list(sampler)
    assert order[0] != order[1]


@pytest.mark.document(
    7,
    says="`cb_params.net_outputs`: the loss",
    how="a tensor that prints as its number",
)
def test_the_loss_callbacks_see_is_a_tensor_that_prints_as_its_number() -> None:
    from sonde.train.loop.step_loss import as_step_output

    loss = as_step_output(torch.tensor(0.1, requires_grad=True))
    assert isinstance(loss, Tensor)
    assert not loss.requires_grad
    assert str(loss) == repr(loss) == repr(float(torch.tensor(0.1)))
    assert f"{loss:.2f}" == "0.10"
    assert type(loss + 1) is Tensor
    assert float(copy.deepcopy(loss)) == float(pickle.loads(pickle.dumps(loss))) == float(loss)
    assert loss < 0.2


def test_numbers_of_any_numpy_kind_are_losses_too() -> None:
    from sonde.train.loop.step_loss import loss_number

    assert loss_number(np.float32(0.5)) == 0.5
    assert loss_number((torch.tensor([1.0, 3.0]), "other")) == 2.0
    assert loss_number(torch.empty(0)) is None
    assert loss_number(None) is None
    assert loss_number(True) is None
    assert str(loss_number(torch.tensor([1.0, float("nan")]))) == "nan"
