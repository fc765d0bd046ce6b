"""What is right for every scenario: which op is at fault, in which step, at which line."""

from __future__ import annotations

from dataclasses import dataclass

NET = "Default/network-"


@dataclass(frozen=True)
class Fault:
    """The first op at fault. ``others``: more that are, by the ends of their names."""

    step: int
    op: str
    line: int
    others: tuple[str, ...] = ()


ATTENTION = f"{NET}Net/attention-Attention"
FAULTS: dict[str, Fault] = {
    "09_all_masked_row": Fault(0, f"{ATTENTION}/masked_fill-op0", 18),
    "10_all_masked_row_ckpt": Fault(0, f"{ATTENTION}/masked_fill-op0", 18),
    "15_masked_fill_nan_to_loss": Fault(2, f"{NET}Gaps/masked_fill-op0", 15),
    "17_exp_overflow": Fault(2, f"{NET}Variance/exp-op0", 17),
    # NaN is made of -inf, and left out by where(): an infinity that becomes NaN is a fault.
    "18_log0_where": Fault(0, f"{NET}Entropy/log-op0", 18),
    "21_half_overflow": Fault(2, f"{NET}Half/mul-op0", 20),
    "24_inplace_view_inf": Fault(1, f"{NET}Normal/div_-op0", 19),
    "25_weight_set_to_inf": Fault(2, "Default/detach-op2", 15),
    "26_weight_set_to_inf_by_op": Fault(2, "Default/fill_-op0", 14),
    # The loader's ops are not part of the step: the batch is an input of it.
    "27_nan_in_batch": Fault(2, "inputs", 16),
    "29_sqrt_grad_at_0": Fault(0, f"Gradients/{NET}Norm/div-op0", 17),
    "30_optimizer_eps": Fault(
        0, "Default/optimizer-Adam/addcdiv_-op0", 17, ("addcdiv_-op1", "addcdiv_-op2")
    ),
    "31_running_state_carried": Fault(1, f"{NET}Running/exp-op0", 18),
    "34_layernorm_constant_rows": Fault(2, f"{NET}Standard/div-op0", 17),
    "35_batch_of_one": Fault(3, "Default/var-op0", 13),
    "37_complex": Fault(2, f"{NET}Spectrum/div-op0", 16),
    "40_long_chain": Fault(1, f"{NET}Deep/log-op0", 16),
    "42_inf_loss_only": Fault(2, "Default/full-op0", 25),
    "43_masked_fill_with_weight_grad": Fault(2, f"{NET}Pick/masked_fill-op0", 16),
    "44_mask_joined_with_log_nan": Fault(0, f"{NET}Attention/log-op0", 21),
    "48_keep_times_inf": Fault(0, f"{NET}Attention/mul-op0", 19),
    "50_clip_inf_gradient": Fault(0, f"Gradients/{NET}Norm/div-op0", 17),
    "51_harmless_then_real": Fault(2, f"{NET}Net/div-op0", 18),
    "52_two_nan_batches": Fault(1, "Default/randn-op0", 15),
    "53_nan_added_in_place_to_a_mask": Fault(0, "Default/log-op0", 10),
    "55_metric_beside_a_root": Fault(0, "Gradients/Default/root-Root/pow-op0", 9),
    "56_hidden_state": Fault(1, "Default/log-op0", 16),
    "57_hidden_state_all_nan": Fault(1, "Default/log-op0", 16),
    "59_closure_with_fault": Fault(2, "Default/div-op0", 18),
    "61_t5_and_0_by_0_in_the_loss": Fault(6, "Default/div-op0", 41),
    "64_memory_allocated_again": Fault(2, "Default/log-op0", 31),
    "67_infinite_loss_with_a_scaler": Fault(2, "Default/mul-op0", 10),
    "62_scale_nobody_checks": Fault(0, "Gradients/Default/_to_copy-op0", 13),
}
"""All others are free of faults."""
