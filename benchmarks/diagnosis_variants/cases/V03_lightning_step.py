import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, 32), nn.GELU(), nn.Linear(32, 4))
        self.criterion = nn.CrossEntropyLoss()

    def forward(self, x):
        return torch.softmax(self.body(x), dim=-1)

    def training_step(self, batch, index):
        x, y = batch
        loss = self.criterion(self(x), y)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.NAdam(self.parameters(), lr=2e-3)


L.seed_everything(2, verbose=False)
y = torch.randint(0, 4, (512,))
x = torch.randn(4, 12)[y] + 0.7 * torch.randn(512, 12)
trainer = L.Trainer(max_epochs=4, accelerator="cpu", logger=False, enable_checkpointing=False,
                    enable_progress_bar=False, enable_model_summary=False)
trainer.fit(Classifier(), DataLoader(TensorDataset(x, y), 32, shuffle=True))
