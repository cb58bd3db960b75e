"""Run networks in OpenCV's dnn, in a process of its own: it can crash on odd ones.

Usage: opencv_child.py FOLDER; every NAME.npz there holds the inputs of the network NAME by name
(NAME.prototxt and NAME.caffemodel, or NAME.cfg and NAME.weights), and ``outputs``, which is empty
for all that no layer reads. NAME.out.npz gets the results.
"""

from __future__ import annotations

import sys
from pathlib import Path

import cv2
import numpy as np

for feeds in sorted(Path(sys.argv[1]).glob("*.npz")):
    arrays = dict(np.load(feeds))
    files = [str(file) for file in feeds.parent.glob(f"{feeds.stem}.*") if file != feeds]
    net = cv2.dnn.readNet(*files)
    outputs = [str(name) for name in arrays.pop("outputs")] or net.getUnconnectedOutLayersNames()
    for name, array in arrays.items():
        net.setInput(array, name)
    np.savez(feeds.with_suffix(".out.npz"), **dict(zip(outputs, net.forward(outputs), strict=True)))
