"""Trains models of other people, with random weights, two steps each."""

import hashlib
import sys

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = nn.Sequential()
        if stride != 1 or inside != outside:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside)
            )

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += self.shortcut(x)
        return self.relu(out)


class ResNet18(nn.Module):
    def __init__(self, width: int = 4, classes: int = 3) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)
        )
        widths = [width, 2 * width, 4 * width, 8 * width]
        self.layers = nn.ModuleList()
        before = width
        for number, each in enumerate(widths):
            self.layers.append(
                nn.Sequential(Block(before, each, 1 if number == 0 else 2), Block(each, each, 1))
            )
            before = each
        self.fc = nn.Linear(before, classes)

    def forward(self, x):
        x = self.stem(x)
        for layer in self.layers:
            x = layer(x)
        return self.fc(x.mean((2, 3)))


def resnet():
    net = ResNet18()
    return net, lambda: nn.functional.cross_entropy(
        net(torch.randn(2, 3, 16, 16)), torch.tensor([0, 2])
    )


def language_model(name):
    import transformers as t

    sizes = {
        "vocab_size": 50,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "hidden_size": 16,
    }
    if name == "gpt2":
        net = t.GPT2LMHeadModel(
            t.GPT2Config(vocab_size=50, n_positions=32, n_embd=16, n_layer=2, n_head=2)
        )
    elif name == "bert":
        net = t.BertForMaskedLM(
            t.BertConfig(**sizes, intermediate_size=32, max_position_embeddings=32)
        )
    else:
        net = t.LlamaForCausalLM(
            t.LlamaConfig(
                **sizes, intermediate_size=32, num_key_value_heads=1, max_position_embeddings=32
            )
        )
    net.train()

    def loss():
        tokens = torch.randint(50, (2, 8))
        return net(input_ids=tokens, labels=tokens).loss

    return net, loss


for name in sys.argv[1:]:
    torch.manual_seed(0)
    model, loss_of = resnet() if name == "resnet18" else language_model(name)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(2):
        optimizer.zero_grad()
        value = loss_of()
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(name, value.item())
    digest = hashlib.sha256()
    for tensor in model.state_dict().values():
        digest.update(tensor.detach().contiguous().numpy().tobytes())
    print(name, digest.hexdigest())
