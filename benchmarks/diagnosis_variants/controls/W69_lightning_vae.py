"""A VAE in Lightning with a beta that rises and an OneCycle schedule by step."""
import logging
import warnings

import lightning as L
import torch
from torch import nn
from torch.nn import functional as F

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Vae(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 8))
        self.decoder = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 24))

    def training_step(self, batch, index):
        (x,) = batch
        mu, logvar = self.encoder(x).chunk(2, 1)
        z = mu + torch.randn_like(mu) * torch.exp(logvar / 2)
        kl = -0.5 * (1 + logvar - mu.square() - logvar.exp()).mean()
        beta = min(1.0, self.global_step / 60)
        return F.mse_loss(self.decoder(z), x) + 0.05 * beta * kl

    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.parameters(), lr=1e-3)
        sched = torch.optim.lr_scheduler.OneCycleLR(opt, 5e-3, total_steps=self.trainer.estimated_stepping_batches)
        return {"optimizer": opt, "lr_scheduler": {"scheduler": sched, "interval": "step"}}


torch.manual_seed(169)
mix = torch.randn(4, 24)
data = torch.utils.data.TensorDataset(torch.randn(480, 4) @ mix)
trainer = L.Trainer(max_epochs=6, accelerator="cpu", logger=False, enable_checkpointing=False,
                    enable_progress_bar=False, enable_model_summary=False, gradient_clip_val=1.0)
trainer.fit(Vae(), torch.utils.data.DataLoader(data, batch_size=32, shuffle=True))
