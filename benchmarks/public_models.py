"""Verdicts of ``sonde run --overflow`` on models of public libraries.

    python benchmarks/public_models.py [--only TEXT] [--parallel 2]

Needs transformers, timm, diffusers and torch_geometric; models of a library that is missing are
left out, and the table says which. Every model is small, has random weights and is trained for six
steps, each in a process of its own under ``sonde run --overflow``:

1. a healthy training must have the verdict ``finite`` or ``harmless``, and write no tensor;
2. six faults, one at a time, in step 4 of the models in ``FAULTY``: the verdict must be ``fault``
   with the step, the kind and the line (marked below with ``FAULT``) of the fault.

The verdicts are read from ``rank_0/overflow.json`` of the dump. Exit code 1 if one is wrong.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

STEPS, FAULT_STEP = 6, 4
FAULTS = (
    *("zero_by_zero", "half_overflow", "infinite_weight"),
    *("root_of_zero", "nan_row", "custom_backward"),
)
FAULTY = ("t5", "bart", "vit")
"""Models in which the faults are made: T5 has log(0), BART masks of -inf."""
SMALL = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
DEEP = {**SMALL, "intermediate_size": 64, "max_position_embeddings": 64}
Batch = dict[str, Any]
Made = tuple[nn.Module, Callable[[], Batch]]


# -------------------------------------------------------------------------- models


def tokens(*, decoder: bool = False, **more: Any) -> Callable[[], Batch]:
    def batch() -> Batch:
        ids = torch.randint(3, 90, (4, 16))
        mask = torch.ones(4, 16, dtype=torch.long)
        mask[:, 12:] = 0
        found = {"input_ids": ids, "attention_mask": mask, "labels": ids, **more}
        if decoder:
            found["decoder_input_ids"] = torch.randint(3, 90, (4, 16))
        return found

    return batch


def images(size: int = 32) -> Callable[[], Batch]:
    return lambda: {"pixel_values": torch.randn(4, 3, size, size), "labels": torch.arange(4) % 3}


def text_model(head: str, config: str, **options: Any) -> Callable[[], Made]:
    def make() -> Made:
        import transformers

        made = getattr(transformers, config)(**options)
        made._attn_implementation = "eager"
        return getattr(transformers, head)(made), tokens()

    return make


def classes(head: str, config: str, **options: Any) -> Callable[[], Made]:
    """A model that classifies texts."""

    def make() -> Made:
        network, batch = text_model(head, config, **options)()
        return network, lambda: batch() | {"labels": torch.arange(4) % 2}

    return make


def t5() -> Made:
    import transformers

    config = transformers.T5Config(
        vocab_size=99, d_model=32, d_kv=8, d_ff=37, num_layers=2, num_heads=4,
        decoder_start_token_id=0,
    )  # fmt: skip
    return transformers.T5ForConditionalGeneration(config), tokens()


def bart() -> Made:
    import transformers

    config = transformers.BartConfig(
        vocab_size=99, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=37, decoder_ffn_dim=37,
        max_position_embeddings=64,
    )  # fmt: skip
    return transformers.BartForConditionalGeneration(config), tokens()


def whisper() -> Made:
    import transformers

    config = transformers.WhisperConfig(
        vocab_size=99, d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=32, decoder_ffn_dim=32, num_mel_bins=8,
        max_source_positions=30, max_target_positions=40, pad_token_id=0, bos_token_id=1,
        eos_token_id=2, decoder_start_token_id=1, suppress_tokens=None,
    )  # fmt: skip

    def batch() -> Batch:
        return {"input_features": torch.randn(2, 8, 60), "labels": torch.randint(3, 90, (2, 12))}

    return transformers.WhisperForConditionalGeneration(config), batch


def wav2vec2() -> Made:
    import transformers

    config = transformers.Wav2Vec2Config(
        vocab_size=32, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=20, conv_dim=(16, 16), conv_stride=(5, 2), conv_kernel=(10, 3),
        num_feat_extract_layers=2, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=2,
        mask_time_prob=0.0, ctc_loss_reduction="mean", pad_token_id=0,
    )  # fmt: skip

    def batch() -> Batch:
        return {"input_values": torch.randn(2, 800), "labels": torch.randint(1, 30, (2, 6))}

    return transformers.Wav2Vec2ForCTC(config), batch


def vit() -> Made:
    import transformers

    config = transformers.ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37,
        image_size=32, patch_size=8, num_labels=3,
    )  # fmt: skip
    return transformers.ViTForImageClassification(config), images()


def swin() -> Made:
    import transformers

    config = transformers.SwinConfig(
        image_size=32, patch_size=2, embed_dim=16, depths=[1, 2], num_heads=[2, 2], window_size=4,
        num_labels=3,
    )  # fmt: skip
    return transformers.SwinForImageClassification(config), images()


class Contrast(nn.Module):
    """CLIP, which returns its loss only if it is asked to."""

    def __init__(self) -> None:
        super().__init__()
        import transformers

        text = transformers.CLIPTextConfig(**DEEP, eos_token_id=98, bos_token_id=0)
        vision = transformers.CLIPVisionConfig(
            hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37,
            image_size=32, patch_size=8,
        )  # fmt: skip
        self.clip = transformers.CLIPModel(
            transformers.CLIPConfig(
                text_config=text.to_dict(), vision_config=vision.to_dict(), projection_dim=16
            )
        )

    def forward(self, **batch: Any) -> Any:
        return self.clip(**batch, return_loss=True)


def clip() -> Made:
    def batch() -> Batch:
        ids = torch.randint(3, 90, (4, 16))
        return {"input_ids": ids, "pixel_values": torch.randn(4, 3, 32, 32)}

    return Contrast(), batch


class Classifier(nn.Module):
    """A network that returns scores, with a loss."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, pixel_values: torch.Tensor, labels: torch.Tensor) -> Any:
        return {"loss": nn.functional.cross_entropy(self.network(pixel_values), labels)}


def timm_model(name: str, size: int = 32, **options: Any) -> Callable[[], Made]:
    def make() -> Made:
        import timm

        return Classifier(timm.create_model(name, num_classes=3, **options)), images(size)

    return make


class Denoiser(nn.Module):
    """A UNet that predicts noise."""

    def __init__(self) -> None:
        super().__init__()
        from diffusers import DDPMScheduler, UNet2DModel

        self.unet = UNet2DModel(
            sample_size=16, in_channels=3, out_channels=3, layers_per_block=1,
            block_out_channels=(16, 32), norm_num_groups=4,
            down_block_types=("DownBlock2D", "AttnDownBlock2D"),
            up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        )  # fmt: skip
        self.schedule = DDPMScheduler(num_train_timesteps=100)

    def forward(self, pixel_values: torch.Tensor) -> Any:
        noise = torch.randn_like(pixel_values)
        times = torch.randint(0, 100, (len(pixel_values),))
        noisy = self.schedule.add_noise(pixel_values, noise, times)
        return {"loss": nn.functional.mse_loss(self.unet(noisy, times).sample, noise)}


def unet() -> Made:
    return Denoiser(), lambda: {"pixel_values": torch.randn(2, 3, 16, 16)}


class GraphClassifier(nn.Module):
    def __init__(self, layer: str) -> None:
        super().__init__()
        import torch_geometric.nn as layers

        self.first = getattr(layers, layer)(8, 16)
        self.second = getattr(layers, layer)(16, 3)

    def forward(self, pixel_values: torch.Tensor, edges: torch.Tensor) -> Any:
        hidden = self.first(pixel_values, edges).relu()
        scores = nn.functional.log_softmax(self.second(hidden, edges), dim=1)
        return {"loss": nn.functional.nll_loss(scores, torch.arange(len(pixel_values)) % 3)}


def graph_model(layer: str) -> Callable[[], Made]:
    edges = torch.randint(0, 20, (2, 60), generator=torch.Generator().manual_seed(0))
    return lambda: (
        GraphClassifier(layer),
        lambda: {"pixel_values": torch.randn(20, 8), "edges": edges},
    )


_GPT2 = {"vocab_size": 99, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
_DISTIL = "DistilBertConfig"
_SHALLOW = {"vocab_size": 99, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 37}
_XLNET = {"vocab_size": 99, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 37}
_OPT = {**DEEP, "ffn_dim": 37, "word_embed_proj_dim": 32}
_MIXTRAL = {**DEEP, "num_key_value_heads": 2, "num_local_experts": 4}
_DEBERTA = {**DEEP, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
MODELS: dict[str, tuple[str, Callable[[], Made]]] = {
    "gpt2": ("transformers", text_model("GPT2LMHeadModel", "GPT2Config", **_GPT2)),
    "llama": ("transformers", text_model("LlamaForCausalLM", "LlamaConfig", **DEEP)),
    "mistral": ("transformers", text_model("MistralForCausalLM", "MistralConfig", **_MIXTRAL)),
    "mixtral": ("transformers", text_model("MixtralForCausalLM", "MixtralConfig", **_MIXTRAL)),
    "gpt_neox": ("transformers", text_model("GPTNeoXForCausalLM", "GPTNeoXConfig", **DEEP)),
    "opt": ("transformers", text_model("OPTForCausalLM", "OPTConfig", **_OPT)),
    "bloom": ("transformers", text_model("BloomForCausalLM", "BloomConfig", **SMALL)),
    "mamba": ("transformers", text_model("MambaForCausalLM", "MambaConfig", **SMALL)),
    "bert": ("transformers", classes("BertForSequenceClassification", "BertConfig", **DEEP)),
    "bert_mlm": ("transformers", text_model("BertForMaskedLM", "BertConfig", **DEEP)),
    "roberta": ("transformers", text_model("RobertaForMaskedLM", "RobertaConfig", **DEEP)),
    "distilbert": ("transformers", text_model("DistilBertForMaskedLM", _DISTIL, **_SHALLOW)),
    "albert": ("transformers", text_model("AlbertForMaskedLM", "AlbertConfig", **DEEP)),
    "electra": ("transformers", text_model("ElectraForMaskedLM", "ElectraConfig", **DEEP)),
    "deberta": ("transformers", text_model("DebertaV2ForMaskedLM", "DebertaV2Config", **_DEBERTA)),
    "xlnet": ("transformers", text_model("XLNetLMHeadModel", "XLNetConfig", **_XLNET)),
    "t5": ("transformers", t5),
    "bart": ("transformers", bart),
    "whisper": ("transformers", whisper),
    "wav2vec2": ("transformers", wav2vec2),
    "vit": ("transformers", vit),
    "swin": ("transformers", swin),
    "clip": ("transformers", clip),
    "resnet18": ("timm", timm_model("resnet18")),
    "convnext": ("timm", timm_model("convnext_atto")),
    "efficientnet": ("timm", timm_model("efficientnet_b0")),
    "mixer": ("timm", timm_model("mixer_s32_224", 64, img_size=64)),
    "deit": ("timm", timm_model("deit_tiny_patch16_224", 32, img_size=32)),
    "unet": ("diffusers", unet),
    "gcn": ("torch_geometric", graph_model("GCNConv")),
    "gat": ("torch_geometric", graph_model("GATConv")),
}  # fmt: skip


# -------------------------------------------------------------------------- training


class BadBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient / (gradient - gradient)  # FAULT custom_backward


def overflow_in_half(_: nn.Module, __: Any, output: torch.Tensor) -> torch.Tensor:
    half = torch.full_like(output, 60000.0, dtype=torch.float16)
    return output + (half * 2).float()  # FAULT half_overflow


def change_batch(network: nn.Module, batch: Batch) -> Batch:
    """The batch with a row of NaN, which numpy writes, so that no op makes it."""
    if "pixel_values" in batch:
        batch["pixel_values"].numpy()[1] = np.nan
        return batch
    size = network.get_input_embeddings().weight.shape[1]
    values = np.random.default_rng(0).normal(size=(*batch.pop("input_ids").shape, size))
    values[1] = np.nan
    return batch | {"inputs_embeds": torch.from_numpy(values.astype(np.float32))}


def loss_of(network: nn.Module, batch: Batch, fault: str | None) -> torch.Tensor:
    found = network(**batch)
    loss: torch.Tensor = found["loss"] if isinstance(found, dict) else found.loss
    if fault == "zero_by_zero":
        weight = torch.zeros(3)
        loss = loss + weight.sum() / weight.sum()  # FAULT zero_by_zero
    elif fault == "root_of_zero":
        loss = loss + torch.sqrt(loss - loss.detach())  # FAULT root_of_zero
    elif fault == "custom_backward":
        loss = BadBackward.apply(loss)
    return loss


def train(name: str, fault: str | None) -> None:
    torch.manual_seed(0)
    network, make_batch = MODELS[name][1]()
    network.train()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    layer = [each for each in network.modules() if isinstance(each, nn.Linear)][1:2]
    for step in range(STEPS):
        now = fault if step == FAULT_STEP else None
        batch = make_batch()
        if now == "nan_row":
            batch = change_batch(network, batch)
        if now == "half_overflow":
            layer[0].register_forward_hook(overflow_in_half)
        if now == "infinite_weight":
            with torch.no_grad():
                layer[0].weight[0, 0] = float("inf")  # FAULT infinite_weight
        loss = loss_of(network, batch, now)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print(f"loss {loss.item():.4f}")


# -------------------------------------------------------------------------- verdicts


@dataclass(frozen=True)
class Outcome:
    name: str
    fault: str | None
    verdict: str
    found: str
    files: int
    is_right: bool


def lines() -> dict[str, int]:
    """The marked line of each fault."""
    text = Path(__file__).read_text().splitlines()
    return {
        line.rpartition("# FAULT ")[2]: number
        for number, line in enumerate(text, 1)
        if "  # FAULT " in line
    }


def run(name: str, fault: str | None) -> Outcome:
    with tempfile.TemporaryDirectory() as place:
        dump = Path(place) / "dump"
        command = [sys.executable, "-m", "sonde", "run", "--overflow", "--dump-to", str(dump)]
        arguments = [__file__, "--train", name, *(["--fault", fault] if fault else [])]
        done = subprocess.run(
            [*command, *arguments],
            capture_output=True,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
            check=False,
        )
        try:
            told = json.loads((dump / "rank_0" / "overflow.json").read_text())
        except OSError:
            told = {"verdict": "none", "origin": None}
        files = sum(1 for _ in dump.rglob("*.npy"))
        if done.returncode:
            told["verdict"] += f", exit {done.returncode}: {done.stderr.strip()[-300:]}"
        return judge(name, fault, told, files)


def judge(name: str, fault: str | None, told: dict[str, Any], files: int) -> Outcome:
    origin = told["origin"] or {}
    source = origin.get("source") or {}
    found = f"step {origin['step']} {origin['op']}:{source.get('line')}" if origin else ""
    if fault is None:
        is_right = told["verdict"] in ("finite", "harmless") and files == 0
    elif fault == "nan_row":
        # Numpy writes into a result of randn, if the program made the batch with torch.
        is_right = origin.get("kind") in ("leaf", "outside") and origin.get("step") == FAULT_STEP
    else:
        is_right = (origin.get("step"), source.get("line")) == (FAULT_STEP, lines()[fault])
    is_right &= fault is None or told["verdict"] == "fault"
    return Outcome(name, fault, told["verdict"], found, files, is_right)


def jobs(only: str) -> Iterator[tuple[str, str | None]]:
    present = {name: importlib.util.find_spec(name) is not None for name, _ in MODELS.values()}
    for library in (each for each, is_there in present.items() if not is_there):
        print(f"{library} is not installed: its models are left out")
    names = [name for name, (library, _) in MODELS.items() if present[library]]
    for name in names:
        if only in name:
            yield name, None
    for name in FAULTY:
        if name in names and only in name:
            yield from ((name, fault) for fault in FAULTS)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="models whose name contains this text")
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument("--train", choices=MODELS, help=argparse.SUPPRESS)
    parser.add_argument("--fault", choices=FAULTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train:
        train(options.train, options.fault)
        return 0
    wrong = 0
    with ThreadPoolExecutor(options.parallel) as pool:
        for each in pool.map(lambda job: run(*job), list(jobs(options.only))):
            wrong += not each.is_right
            mark = "right" if each.is_right else "WRONG"
            fault = each.fault or "healthy"
            print(f"{mark}  {each.name:13} {fault:16} {each.verdict:9} {each.found}", flush=True)
    print(f"{wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
