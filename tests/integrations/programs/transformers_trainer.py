"""Trains a small GPT-2 with transformers' Trainer, once without and once with SondeCallback.

Words: ``fault`` (a batch of the third step gives NaN), ``bf16``, ``checkpointing``, ``peft``,
``stop``, ``bare`` (only without), ``resume`` (from a checkpoint of the second step)."""

import os
import sys

import torch
import transformers
from results import fault_in, print_results, weights_hash
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

WORDS = sys.argv[1:]
BAD_TOKEN = 31


class Sentences(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        ids = torch.randint(0, BAD_TOKEN, (8,), generator=torch.Generator().manual_seed(index))
        if "fault" in WORDS and index == 17:
            ids[3] = BAD_TOKEN
        return {"input_ids": ids, "labels": ids}


class Model(GPT2LMHeadModel):
    def forward(self, input_ids=None, labels=None, **options):
        output = super().forward(input_ids=input_ids, labels=labels, **options)
        if self.training:
            output.loss = output.loss + fault_in((input_ids == BAD_TOKEN).any(-1))
        return output


class InOrder(Trainer):
    def _get_train_sampler(self, *_):
        return torch.utils.data.SequentialSampler(self.train_dataset)


def train(callbacks):
    transformers.set_seed(0)
    sizes = {"n_layer": 1, "n_head": 2, "n_embd": 16, "vocab_size": 32, "n_positions": 16}
    model = Model(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0))
    if "peft" in WORDS:
        from peft import LoraConfig, get_peft_model

        model = get_peft_model(
            model, LoraConfig(target_modules=["c_attn"], r=2, fan_in_fan_out=True)
        )
    args = TrainingArguments(
        "out",
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        max_steps=4,
        logging_steps=1,
        eval_strategy="steps",
        eval_steps=2,
        report_to=os.environ.get("REPORT_TO", "none").split(","),
        disable_tqdm=True,
        use_cpu=True,
        save_strategy="steps" if "resume" in WORDS else "no",
        save_steps=2,
        bf16="bf16" in WORDS,
        gradient_checkpointing="checkpointing" in WORDS,
    )
    trainer = InOrder(
        model=model,
        args=args,
        train_dataset=Sentences(),
        eval_dataset=Sentences(),
        callbacks=callbacks,
    )
    is_resumed = "resume" in WORDS and bool(callbacks)
    trainer.train(resume_from_checkpoint="out/checkpoint-2" if is_resumed else None)
    return weights_hash(model), trainer.state


bare, state = train([])
results = {"bare": bare, "bare_losses": [each.get("loss") for each in state.log_history]}
if "bare" not in WORDS:
    from sonde.integrations.transformers import SondeCallback

    callback = SondeCallback(diagnose=True, on_trigger="stop" if "stop" in WORDS else "continue")
    observed, state = train([callback])
    results |= {"observed": observed, "findings": callback.findings}
print_results(**results, steps=state.global_step, log=state.log_history)
