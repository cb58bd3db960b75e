"""A network of the building blocks of YOLOv4 and its relatives, against OpenCV's own reader."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from engine.frontends.load import inspect_source, load_source
from tests.frontends.darknet.networks import head, run, source

CHILD = Path(__file__).parents[1] / "opencv_child.py"


def conv(filters: int, size: int, activation: str, more: str = "") -> str:
    return (
        f"[convolutional]\nbatch_normalize=1\nfilters={filters}\nsize={size}\nstride=1\npad=1\n"
        f"activation={activation}\n{more}"
    )


def pool(size: int) -> str:
    return f"[maxpool]\nsize={size}\nstride=1\n[route]\nlayers=-2\n"


BODY = (
    conv(8, 3, "mish").replace("stride=1", "stride=2")
    + conv(8, 3, "leaky")
    + "[route]\nlayers=-1\ngroups=2\ngroup_id=1\n"
    + conv(4, 3, "swish")
    + conv(4, 3, "logistic", "groups=4\n")
    + "[route]\nlayers=-1,-2\n[shortcut]\nfrom=1\nactivation=linear\n"
    + "[maxpool]\nsize=2\nstride=2\n"
    + "".join(pool(size) for size in (5, 9))
    + "[maxpool]\nsize=13\nstride=1\n[route]\nlayers=-1,-3,-5,-6\n"
    + conv(6, 1, "relu")
    + "[upsample]\nstride=2\n[route]\nlayers=-1,6\n"
    + "[convolutional]\nfilters=16\nsize=1\nactivation=linear\n"
    + "[yolo]\nmask=0,2\nanchors=3,4, 7,5, 9,12\nclasses=3\nnum=3\nscale_x_y=1.05\n"
)


def test_a_network_like_yolov4_equals_opencv(tmp_path: Path) -> None:
    random = np.random.default_rng(11)
    cfg = head(3, 32, 40) + BODY
    count = inspect_source(source(tmp_path, cfg, np.zeros(0))).parameters
    floats = random.uniform(0.02, 0.4, count).astype(np.float32)
    given = source(tmp_path, cfg, floats, darknet_decode=True, darknet_epsilon=1e-6)
    x = random.uniform(-1, 1, (1, 3, 32, 40)).astype(np.float32)
    np.savez(tmp_path / "net.npz", data=x, outputs=[])
    subprocess.run([sys.executable, CHILD, tmp_path], check=True, timeout=60)
    (expected,) = np.load(tmp_path / "net.out.npz", allow_pickle=False).values()
    (actual,) = run(load_source(given), x)
    actual[:, 5:][actual[:, 5:] <= 0.2] = 0
    assert np.count_nonzero(expected[:, 5:]) > 100
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)
