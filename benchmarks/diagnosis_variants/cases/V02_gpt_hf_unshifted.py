import torch
import torch.nn.functional as F
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(1)
model = GPT2LMHeadModel(GPT2Config(vocab_size=40, n_positions=24, n_embd=32, n_layer=2, n_head=2))
text = torch.cumsum(torch.randint(1, 4, (4000,)), 0) % 40
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
model.train()
for step in range(60):
    start = torch.randint(0, 3900, (16,))
    batch = torch.stack([text[s:s + 24] for s in start])
    logits = model(input_ids=batch).logits
    loss = F.cross_entropy(logits.reshape(-1, 40), batch.reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
