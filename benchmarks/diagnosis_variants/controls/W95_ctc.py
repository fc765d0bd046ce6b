import torch
from torch import nn

torch.manual_seed(412)


class Speech(nn.Module):
    def __init__(self, classes=9):
        super().__init__()
        self.conv = nn.Conv1d(12, 32, 3, padding=1)
        self.rnn = nn.GRU(32, 32, bidirectional=True)
        self.fc = nn.Linear(64, classes)

    def forward(self, frames):
        h = self.conv(frames).relu().permute(2, 0, 1)
        return self.fc(self.rnn(h)[0]).log_softmax(-1)


sound = torch.randn(9, 12) * 2
net = Speech()
opt = torch.optim.Adam(net.parameters(), lr=4e-3)
ctc = nn.CTCLoss(blank=0, zero_infinity=True)
for step in range(100):
    text = torch.randint(1, 9, (16, 5))
    frames = sound[text.repeat_interleave(4, 1)].transpose(1, 2) + 0.3 * torch.randn(16, 12, 20)
    length = torch.randint(3, 6, (16,))
    loss = ctc(net(frames), text, length * 4, length)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(step, loss.item())
