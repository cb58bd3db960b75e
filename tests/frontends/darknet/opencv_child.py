"""Run a Darknet network in OpenCV, in a process of its own: ``cfg weights input.npy output.npz``.

OpenCV's dnn can crash on odd networks, which must not end the tests.
"""

from __future__ import annotations

import sys

import cv2
import numpy as np

cfg, weights, given, result = sys.argv[1:]
net = cv2.dnn.readNetFromDarknet(cfg, weights)
net.setInput(np.load(given, allow_pickle=False))
names = net.getUnconnectedOutLayersNames()
arrays = {f"out{index}": array for index, array in enumerate(net.forward(names))}
np.savez(result, **arrays)
