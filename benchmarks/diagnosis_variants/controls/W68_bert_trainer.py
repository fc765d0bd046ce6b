"""transformers Trainer with warm-up, accumulation and evaluation during training."""
import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments


class Reviews(torch.utils.data.Dataset):
    def __init__(self, count, seed):
        g = torch.Generator().manual_seed(seed)
        self.tokens = torch.randint(5, 60, (count, 12), generator=g)
        self.labels = (self.tokens[:, 0] > 32).long()

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return {"input_ids": self.tokens[i], "attention_mask": torch.ones(12, dtype=torch.long), "labels": self.labels[i]}


torch.manual_seed(168)
model = BertForSequenceClassification(
    BertConfig(vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
               intermediate_size=64, max_position_embeddings=16)
)
with tempfile.TemporaryDirectory() as place:
    arguments = TrainingArguments(
        place, num_train_epochs=3, per_device_train_batch_size=16, gradient_accumulation_steps=2,
        learning_rate=1e-3, warmup_steps=5, eval_strategy="epoch", report_to=[], use_cpu=True,
        save_strategy="no", disable_tqdm=True, logging_steps=5, label_smoothing_factor=0.1,
    )
    Trainer(model, arguments, train_dataset=Reviews(330, 1), eval_dataset=Reviews(60, 2)).train()
