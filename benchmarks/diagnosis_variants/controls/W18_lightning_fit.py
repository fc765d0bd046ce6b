import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 3))

    def training_step(self, batch, index):
        return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    def validation_step(self, batch, index):
        self.log("val", nn.functional.cross_entropy(self.net(batch[0]), batch[1]))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=2e-3)
        return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5)]


L.seed_everything(67, verbose=False)
y = torch.randint(0, 3, (600,))
x = torch.randn(3, 10)[y] + torch.randn(600, 10)
trainer = L.Trainer(max_epochs=4, accelerator="cpu", logger=False, enable_checkpointing=False, accumulate_grad_batches=2,
                    enable_progress_bar=False, enable_model_summary=False, gradient_clip_val=1.0)
trainer.fit(Net(), DataLoader(TensorDataset(x[:500], y[:500]), 25, shuffle=True),
            DataLoader(TensorDataset(x[500:], y[500:]), 25))
