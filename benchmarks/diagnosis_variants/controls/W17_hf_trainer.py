import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

torch.manual_seed(66)
config = BertConfig(vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                    intermediate_size=64, num_labels=2)
model = BertForSequenceClassification(config)


def sample(n):
    label = n % 2
    length = 6 + n % 7
    ids = torch.zeros(12, dtype=torch.long)
    ids[:length] = torch.randint(2, 30, (length,)) + 30 * label
    return {"input_ids": ids, "attention_mask": ids.ne(0).long(), "labels": torch.tensor(label)}


arguments = TrainingArguments(output_dir="out", max_steps=40, per_device_train_batch_size=8, use_cpu=True,
                              report_to=[], logging_steps=10, save_strategy="no", disable_tqdm=True,
                              warmup_steps=5, eval_strategy="steps", eval_steps=20)
Trainer(model=model, args=arguments, train_dataset=[sample(n) for n in range(160)],
        eval_dataset=[sample(n) for n in range(160, 200)]).train()
