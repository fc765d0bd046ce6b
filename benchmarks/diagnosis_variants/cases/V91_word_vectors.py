"""A language model that starts from given word vectors and shares them with its output."""
import torch
from torch import nn


class LanguageModel(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.decoder = nn.Linear(width, vocabulary, bias=False)
        self.decoder.weight = self.words.weight

    def forward(self, tokens):
        hidden, _ = self.rnn(self.words(tokens))
        return self.decoder(hidden)


def use_vectors(model, vectors):
    model.words = nn.Embedding.from_pretrained(vectors, freeze=False)
    return model


def sentences(n, vocabulary=40, length=14):
    start = torch.randint(0, vocabulary, (n, 1))
    stride = torch.randint(1, 4, (n, 1))
    return (start + stride * torch.arange(length)) % vocabulary


torch.manual_seed(91)
model = use_vectors(LanguageModel(40, 32), torch.randn(40, 32) * 0.1)
optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
for step in range(120):
    text = sentences(24)
    logits = model(text[:, :-1])
    loss = nn.functional.cross_entropy(logits.reshape(-1, 40), text[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 40 == 0:
        print(f"{step:4d} {loss.item():.4f}")
