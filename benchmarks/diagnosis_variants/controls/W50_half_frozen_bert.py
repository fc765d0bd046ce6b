import torch
from transformers import BertConfig, BertForSequenceClassification, get_linear_schedule_with_warmup

torch.manual_seed(0)
model = BertForSequenceClassification(BertConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2,
                                                 num_attention_heads=2, intermediate_size=64, num_labels=2))
for parameter in model.bert.embeddings.parameters():
    parameter.requires_grad = False
optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=5e-4)
schedule = get_linear_schedule_with_warmup(optimizer, 10, 60)
for step in range(60):
    model.train()
    labels = torch.randint(0, 2, (16,))
    ids = torch.randint(0, 32, (16, 12)) + 32 * labels[:, None]
    mask = torch.ones_like(ids)
    mask[:, 9:] = 0
    loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
print(loss.item())
