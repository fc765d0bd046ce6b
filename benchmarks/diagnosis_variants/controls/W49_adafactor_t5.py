import torch
from transformers import Adafactor, T5Config, T5ForConditionalGeneration

torch.manual_seed(0)
model = T5ForConditionalGeneration(T5Config(
    vocab_size=40, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0, pad_token_id=0))
model.train()
optimizer = Adafactor(model.parameters(), scale_parameter=True, relative_step=True, warmup_init=False, lr=None)
for step in range(60):
    source = torch.randint(2, 40, (8, 10))
    labels = source.flip(1).clone()
    labels[:, 7:] = -100
    loss = model(input_ids=source, labels=labels).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
