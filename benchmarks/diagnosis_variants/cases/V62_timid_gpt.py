import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(vocab_size=48, n_positions=32, n_embd=32, n_layer=2, n_head=2,
                                   resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0))
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-9)
for step in range(80):
    start = torch.randint(0, 48, (8, 1))
    ids = (start + torch.arange(16)) % 48
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 20 == 0:
        print(step, loss.item())
