import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(63)
model = GPT2LMHeadModel(GPT2Config(vocab_size=40, n_positions=16, n_embd=32, n_layer=2, n_head=2))
text = torch.cumsum(torch.randint(1, 4, (3000,)), 0) % 40
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model.train()
for step in range(50):
    ids = torch.stack([text[s:s + 16] for s in torch.randint(0, 2900, (12,))])
    loss = model(input_ids=ids, labels=ids).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
