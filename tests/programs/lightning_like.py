"""Trains as Lightning does: a sanity check before the training, training_step inside the closure
of optimizer.step, accumulation over two batches, a validation after each epoch."""

import torch
from results import FAULT_STEP, print_results
from torch import nn


class LitAutoEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 3))
        self.decoder = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 8))
        self.fault = False

    def training_step(self, batch):
        z = self.encoder(batch)
        scores = z @ z.T + torch.full((len(z), len(z)), float("-inf")).triu(1)
        loss = nn.functional.mse_loss(self.decoder(scores.softmax(-1) @ z), batch)
        scale = 0.0 if self.fault else 1.0
        return loss * scale / torch.tensor(scale)  # FAULT

    def validation_step(self, batch):
        return nn.functional.mse_loss(self.decoder(self.encoder(batch)), batch)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)


class Trainer:
    def __init__(self, accumulate):
        self.accumulate = accumulate
        self.global_step = 0
        self.losses = []

    def validate(self, lit_module, batches):
        lit_module.eval()
        with torch.no_grad():
            self.losses += [lit_module.validation_step(batch).item() for batch in batches]
        lit_module.train()

    def closure(self, lit_module, batch, zeroes):
        lit_module.fault = self.global_step == FAULT_STEP
        loss = lit_module.training_step(batch) / self.accumulate
        if zeroes:
            self.optimizer.zero_grad()
        loss.backward()
        self.losses.append(loss.item())
        return loss

    def fit(self, lit_module, train_batches, val_batches):
        self.optimizer = lit_module.configure_optimizers()
        self.validate(lit_module, val_batches[:2])
        for _ in range(2):
            for number, batch in enumerate(train_batches):
                if (number + 1) % self.accumulate:
                    self.closure(lit_module, batch, True)
                else:
                    self.optimizer.step(lambda batch=batch: self.closure(lit_module, batch, False))
                    self.global_step += 1
            self.validate(lit_module, val_batches)


torch.manual_seed(0)
autoencoder = LitAutoEncoder()
batches = torch.randn(11, 4, 8)
trainer = Trainer(accumulate=2)
trainer.fit(autoencoder, batches[:8], batches[8:])
print_results(trainer.losses, autoencoder.state_dict())
