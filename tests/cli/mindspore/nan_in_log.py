"""Trains with MindSpore; in the third step log() of a negative number gives NaN."""

import mindspore as ms
import numpy as np
from mindspore import dataset, nn, ops
from mindspore.train import LossMonitor, Model

ms.set_context(mode=ms.GRAPH_MODE)
ms.set_device("CPU")
ms.set_seed(13)


class GateNet(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Dense(6, 8)
        self.relu = nn.ReLU()
        self.fc2 = nn.Dense(8, 3)

    def construct(self, x):
        h = self.relu(self.fc1(x))
        gate = ops.log(x[:, 0:1] + 1.0)
        return self.fc2(h * gate)


chance = np.random.default_rng(13)
X = chance.uniform(0.1, 1.0, (16, 6)).astype(np.float32)
X[9, 0] = -2.5
Y = chance.integers(0, 3, 16).astype(np.int32)
rows = [(X[i], np.array(Y[i])) for i in range(16)]
data = dataset.GeneratorDataset(rows, ["x", "y"], shuffle=False).batch(4)
net = GateNet()
loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
model = Model(net, loss, nn.SGD(net.trainable_params(), 0.1))
model.train(1, data, callbacks=[LossMonitor()], dataset_sink_mode=False)
