import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Regressor(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.net = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 1))

    def training_step(self, batch, index):
        x, y = batch
        optimizer = self.optimizers()
        loss = nn.functional.mse_loss(self.net(x), y)
        self.manual_backward(loss)
        optimizer.step()
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-3)


L.seed_everything(3, verbose=False)
x = torch.randn(640, 6)
y = (x[:, :1] * x[:, 1:2]).tanh()
trainer = L.Trainer(max_epochs=3, accelerator="cpu", logger=False, enable_checkpointing=False,
                    enable_progress_bar=False, enable_model_summary=False)
trainer.fit(Regressor(), DataLoader(TensorDataset(x, y), 32, shuffle=True))
