"""What Sonde has to say of each program, and how it has to name its parts."""

from __future__ import annotations

from dataclasses import dataclass

EVALUATION = "evaluation-not-observed"
THREAD = "other-thread"
NO_OPTIMIZER = "no-step-yet"


@dataclass(frozen=True)
class Expected:
    """``steps``: training steps. ``graphs``: graph files of ``--stats``; None if the structure of
    steps varies. ``names``: the starts of names of ops that must be there. ``slugs``: of the lines
    that are due in every mode. ``fault``: the step of the injected 0/0, and the scope of its op."""

    steps: int
    graphs: int | None
    names: tuple[str, ...]
    verdict: str = "finite"
    slugs: tuple[str, ...] = ()
    fault: tuple[int, str] = (3, "Default")


# The first step of Adam and of momentum also makes the optimizer's state: two graphs.
EXPECTED = {
    "trainer": Expected(
        6,
        2,
        ("Default/network-TinyModel/qkv-Linear/addmm", "Default/optimizer-AdamW/"),
        slugs=(EVALUATION,),
    ),
    "t5_like": Expected(
        6,
        2,
        (
            "Default/network-T5/shared-Embedding/embedding",
            "Default/network-T5/block-ModuleList/0-Attention/q-Linear/",
            "Default/network-T5/crossentropyloss-CrossEntropyLoss/nll_loss",
        ),
        "harmless",
        fault=(3, "Default/network-T5"),
    ),
    "mamba_like": Expected(
        5,
        2,
        (
            "Default/network-MambaLM/layers-ModuleList/1-Mixer/conv1d-Conv1d/",
            "Default/network-MambaLM/layers-ModuleList/1-Mixer/silu-SiLU/silu",
            "Default/loss-CrossEntropyLoss/nll_loss",
        ),
    ),
    "lightning_like": Expected(
        8,
        None,
        (
            "Default/autoencoder-LitAutoEncoder/encoder-Sequential/0-Linear/addmm",
            "Default/autoencoder-LitAutoEncoder/decoder-Sequential/2-Linear/addmm",
            "Default/mse_loss",
        ),
        "harmless",
        (EVALUATION,),
    ),
    "rl": Expected(8, None, ("Default/policy-Policy/affine1-Linear/",)),
    "lbfgs": Expected(
        3,
        None,
        ("Default/seq-Sequence/lstm1-LSTMCell/", "Default/loss-MSELoss/mse_loss"),
        fault=(1, "Default"),
    ),
    "hogwild": Expected(
        3, 2, ("Default/network-Sequential/0-Linear/addmm",), "unknown", (THREAD,), (2, "Default")
    ),
    "loader": Expected(6, 2, ("Default/network-Net/conv1-Conv2d/",), slugs=(EVALUATION,)),
    "gan": Expected(
        8,
        None,
        (
            "Default/netD-Discriminator/main-Sequential/0-Conv2d/",
            "Default/netG-Generator/main-Sequential/0-ConvTranspose2d/",
        ),
    ),
    "word_model": Expected(
        0,
        1,
        (
            "Default/network-TransformerModel/encoder-TransformerEncoder/layers-ModuleList/"
            "0-TransformerEncoderLayer/linear1-Linear/",
        ),
        "harmless",
        (EVALUATION, NO_OPTIMIZER),
    ),
    "moe": Expected(
        8, None, ("Default/network-Sequential/1-SparseMoe/experts-ModuleList/0-Sequential/",)
    ),
    "script_and_lazy": Expected(
        6, 2, ("Default/network-Net/first-LazyLinear/", "Default/network-Net/gate-")
    ),
    "swap": Expected(6, None, ("Default/network-Sequential/0-Linear/addmm",)),
    "fsdp2": Expected(
        4, None, ("Default/network-Sequential/0-Block/fc1-Linear/",), fault=(2, "Default")
    ),
    "tensor_parallel": Expected(
        4, None, ("Default/tp_model-ToyModel/in_proj-Linear/",), fault=(2, "Default")
    ),
}
