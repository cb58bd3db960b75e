"""Run Caffe nets in OpenCV's dnn, in a process of its own: it can crash on odd graphs.

Usage: opencv_child.py FOLDER; every NAME.npz there holds the inputs of NAME.prototxt and
NAME.caffemodel by name, and ``outputs``; NAME.out.npz gets the results.
"""

from __future__ import annotations

import sys
from pathlib import Path

import cv2
import numpy as np

for feeds in sorted(Path(sys.argv[1]).glob("*.npz")):
    arrays = dict(np.load(feeds))
    outputs = [str(name) for name in arrays.pop("outputs")]
    net = cv2.dnn.readNetFromCaffe(
        str(feeds.with_suffix(".prototxt")), str(feeds.with_suffix(".caffemodel"))
    )
    for name, array in arrays.items():
        net.setInput(array, name)
    found = dict(zip(outputs, net.forward(outputs), strict=True))
    np.savez(feeds.with_suffix(".out.npz"), **found)
