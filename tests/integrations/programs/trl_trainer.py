"""Trains a small GPT-2 with trl's SFTTrainer, once without and once with SondeCallback.

The learning rate is so large that the second step gives NaN."""

import transformers
from datasets import Dataset
from results import print_results, weights_hash
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

from sonde.integrations.transformers import SondeCallback

WORDS = [f"w{number}" for number in range(30)]


def tokenizer():
    numbers = {word: number for number, word in enumerate(["<eos>", *WORDS])}
    plain = Tokenizer(models.WordLevel(numbers, "<eos>"))
    plain.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=plain, eos_token="<eos>", pad_token="<eos>")


def train(callbacks):
    transformers.set_seed(0)
    sizes = {"n_layer": 1, "n_head": 2, "n_embd": 16, "vocab_size": 32, "n_positions": 16}
    model = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0))
    texts = [" ".join(WORDS[start : start + 6]) for start in range(16)]
    config = SFTConfig(
        "out",
        max_steps=4,
        per_device_train_batch_size=2,
        learning_rate=1e30,
        max_grad_norm=0.0,
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        save_strategy="no",
        bf16=False,
        logging_steps=1,
        gradient_checkpointing=False,
    )
    trainer = SFTTrainer(
        model=model,
        args=config,
        train_dataset=Dataset.from_dict({"text": texts}),
        processing_class=tokenizer(),
        callbacks=callbacks,
    )
    trainer.train()
    return weights_hash(model), trainer.state.global_step


bare, _ = train([])
callback = SondeCallback()
observed, steps = train([callback])
print_results(bare=bare, observed=observed, steps=steps, findings=callback.findings)
