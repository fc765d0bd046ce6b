import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification

torch.manual_seed(0)
config = BertConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                    intermediate_size=64, num_labels=2)
folder = tempfile.mkdtemp()
BertForSequenceClassification(config).save_pretrained(folder)

model = BertForSequenceClassification.from_pretrained(folder)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
for step in range(60):
    labels = torch.randint(0, 2, (16,))
    ids = torch.randint(0, 32, (16, 10)) + 32 * labels[:, None]
    out = model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=labels)
    out.loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print(out.loss.item())
