"""Fine-tunes a small transformer of another task."""
import torch
from torch import nn
from transformers import BertConfig, BertForSequenceClassification

torch.manual_seed(100)


def pretrained():
    config = BertConfig(
        vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=64, max_position_embeddings=32, num_labels=2,
    )
    return BertForSequenceClassification(config)


def reviews(n):
    tokens = torch.randint(4, 60, (n, 12))
    stars = (tokens[:, :4].float().mean(1) / 12).long().clamp(0, 4)
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}, stars


model = pretrained()
decay = [p for n, p in model.named_parameters() if p.ndim > 1]
rest = [p for n, p in model.named_parameters() if p.ndim <= 1]
optimizer = torch.optim.AdamW(
    [{"params": decay, "weight_decay": 0.01}, {"params": rest, "weight_decay": 0.0}], lr=1e-3
)
model.classifier = nn.Linear(32, 5)
model.num_labels = model.config.num_labels = 5
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=60)
for step in range(60):
    inputs, stars = reviews(24)
    loss = nn.functional.cross_entropy(model(**inputs).logits, stars)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    if step % 15 == 0:
        print(step, loss.item())
