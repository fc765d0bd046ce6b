"""Trains a small network with MindSpore; twin.py is the same in PyTorch."""

import mindspore as ms
import numpy as np
from mindspore import dataset, nn
from mindspore.train import LossMonitor, Model

ms.set_context(mode=ms.GRAPH_MODE)
ms.set_device("CPU")
STEPS, BATCH = 4, 5


class Perceptron(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Dense(6, 8)
        self.act = nn.ReLU()
        self.fc2 = nn.Dense(8, 3)

    def construct(self, x):
        return self.fc2(self.act(self.fc1(x)))


chance = np.random.default_rng(5)
X = chance.standard_normal((STEPS * BATCH, 6)).astype(np.float32)
Y = chance.integers(0, 3, STEPS * BATCH).astype(np.int32)
net = Perceptron()
for parameter in net.get_parameters():
    values = chance.standard_normal(parameter.shape).astype(np.float32) * 0.3
    parameter.set_data(ms.Tensor(values))
rows = [(X[i], np.array(Y[i])) for i in range(len(Y))]
data = dataset.GeneratorDataset(rows, ["x", "y"], shuffle=False).batch(BATCH)
loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
model = Model(net, loss, nn.Momentum(net.trainable_params(), 0.1, 0.9))
model.train(1, data, callbacks=[LossMonitor()], dataset_sink_mode=False)
