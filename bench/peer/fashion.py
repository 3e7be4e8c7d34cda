"""The fashion model of jobs/fashion.yaml in plain PyTorch, and its data in memory."""
import gzip

import numpy
import torch
import torch.nn as nn
import torch.nn.functional as F

FOLDER = "/usr/share/datasets/fashion-mnist"


def norm(channels):
    return nn.BatchNorm2d(channels)


class Basic(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = norm(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = norm(outputs)
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), norm(outputs))

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)), inplace=True)
        return F.relu(self.norm2(self.conv2(y)).add_(self.shortcut(x)), inplace=True)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 16, 3, 1, 1, bias=False), norm(16), nn.ReLU(True))
        self.stages = nn.Sequential(Basic(16, 16, 1), Basic(16, 32, 2), Basic(32, 64, 2))
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        return self.head(self.stages(self.stem(x)).mean((2, 3)))


def training_data():
    with gzip.open(f"{FOLDER}/train-images-idx3-ubyte.gz") as file:
        pixels = numpy.frombuffer(file.read(), numpy.uint8, offset=16)
    with gzip.open(f"{FOLDER}/train-labels-idx1-ubyte.gz") as file:
        labels = numpy.frombuffer(file.read(), numpy.uint8, offset=8)
    images = torch.from_numpy(pixels.reshape(-1, 1, 28, 28).astype(numpy.float32))
    return images.div_(255).sub_(0.2860).div_(0.3530), torch.from_numpy(labels.astype(numpy.int64))
