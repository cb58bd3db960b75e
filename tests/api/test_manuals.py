"""The manuals' examples for the methods that exist here, as they stand there."""

from __future__ import annotations

import logging
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.api import RKNN

pytestmark = pytest.mark.usefixtures("place", "rknn_api", "no_adb")


@pytest.fixture
def no_adb(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without adb, so that an example with a board starts no server."""
    monkeypatch.setenv("PATH", str(tmp_path))


def run(snippet: str, **names: Any) -> dict[str, Any]:
    """Run an example; what it defines comes back."""
    names.setdefault("__name__", "__main__")
    exec(compile(textwrap.dedent(snippet), "manual", "exec"), names)  # noqa: S102 - the test's own
    return names


def test_initialisation_and_release(capsys: pytest.CaptureFixture[str]) -> None:
    """[RKNN-T1 1.3.2, 3.6.1; RKNN-T2 1.1.0, 3.5.1]."""
    names = run(
        """
        from rknn.api import RKNN
        # Show the detailed log information on screen, and saved to
        # mobilenet_build.log
        rknn = RKNN(verbose=True, verbose_file='./mobilenet_build.log')
        rknn.load_onnx(model='missing.onnx')
        rknn.release()
        # Only show the detailed log information on screen.
        rknn = RKNN(verbose=True)
        ...
        rknn.release()
        """
    )
    assert isinstance(names["rknn"], RKNN)
    assert "missing.onnx does not exist" in Path("mobilenet_build.log").read_text()
    captured = capsys.readouterr()
    assert captured.err.startswith("E load_onnx: ")
    assert "missing.onnx does not exist" in captured.err
    assert captured.out == ""


def test_generation_1(dog: np.ndarray) -> None:
    """[RKNN-T1 1.3.2, 3.6.2 to 3.6.8]."""
    names = run(
        """
        from rknn.api import RKNN
        rknn = RKNN()
        # model config
        rknn.config(channel_mean_value='103.94 116.78 123.68 58.82',
            reorder_channel='0 1 2',
            need_horizontal_merge=True,
            target_platform=['rk1808', 'rk3399pro'])
        # Load the arcface onnx model in the current path
        ret = rknn.load_onnx(model = './arcface.onnx')
        assert ret == 0
        # Build and quantize RKNN model
        ret = rknn.build(do_quantization=True, dataset='./dataset.txt')
        assert ret == 0
        # save the built RKNN model as a mobilenet_v1.rknn file in the current
        # path
        ret = rknn.export_rknn(export_path = './mobilenet_v1.rknn')
        assert ret == 0
        ret = rknn.init_runtime()
        assert ret == 0
        # Preform inference for a picture with a model and get a top-5 result
        outputs = rknn.inference(inputs=[img])
        # Load the mobilenet_v1 RKNN model in the current path
        ret = rknn.load_rknn(path='./mobilenet_v1.rknn')
        assert ret == 0
        ret = rknn.init_runtime(target='rk1808', device_id='012345789AB')
        """,
        img=dog,
    )
    assert names["outputs"][0].shape == (1, 10)
    assert names["ret"] == -1  # a board is needed
    assert names["rknn"].generation == 1


WHOLE_1 = """
from rknn.api import RKNN
def show_outputs(outputs):
    output = outputs[0][0]
    output_sorted = sorted(output, reverse=True)
    top5_str = 'mobilenet_v1\\n----TOP 5----\\n'
    for i in range(5):
        value = output_sorted[i]
        index = np.where(output == value)
        for j in range(len(index)):
            if (i + j) >= 5:
                break
            if value > 0:
                topi = '{}: {}\\n'.format(index[j], value)
            else:
                topi = '-1: 0.0\\n'
            top5_str += topi
    print(top5_str)

if __name__ == '__main__':
    # Create RKNN object
    rknn = RKNN()
    # pre-process config
    print('--> config model')
    rknn.config(channel_mean_value='103.94 116.78 123.68 58.82', reorder_channel='0 1 2')
    print('done')
    # Load tensorflow model
    print('--> Loading model')
    ret = rknn.LOAD
    if ret != 0:
        print('Load mobilenet_v1 failed!')
        exit(ret)
    print('done')
    # Build model
    print('--> Building model')
    ret = rknn.build(do_quantization=True, dataset='./dataset.txt')
    if ret != 0:
        print('Build mobilenet_v1 failed!')
        exit(ret)
    print('done')
    # Export rknn model
    print('--> Export RKNN model')
    ret = rknn.export_rknn('./mobilenet_v1.rknn')
    if ret != 0:
        print('Export mobilenet_v1.rknn failed!')
        exit(ret)
    print('done')
    # Set inputs
    img = read('./dog_224x224.jpg')
    # init runtime environment
    print('--> Init runtime environment')
    ret = rknn.init_runtime()
    if ret != 0:
        print('Init runtime environment failed')
        exit(ret)
    print('done')
    # Inference
    print('--> Running model')
    outputs = rknn.inference(inputs=[img])
    show_outputs(outputs)
    print('done')
    # perf
    print('--> Begin evaluate model performance')
    perf_results = rknn.eval_perf(inputs=[img])
    print('done')
    rknn.release()
"""


def _read(_path: str, dog: np.ndarray) -> np.ndarray:
    return dog


def test_the_whole_example_of_generation_1(
    dog: np.ndarray, capsys: pytest.CaptureFixture[str]
) -> None:
    """[RKNN-T1 1.3.2, 3.5], with an ONNX file for its TFLite one, and no cv2."""
    script = WHOLE_1.replace("LOAD", "load_onnx(model='./arcface.onnx')")
    names = run(script, np=np, read=lambda path: _read(path, dog))
    captured = capsys.readouterr()
    assert "----TOP 5----" in captured.out
    assert captured.out.count("done") == 7
    found = names["perf_results"]
    assert found["total_time"] == pytest.approx(
        sum(x["time"] for x in found["layers"].values()), 0.01
    )
    assert "Performance (estimated)" in captured.err


def test_the_whole_example_as_it_stands_ends_with_the_reason(
    dog: np.ndarray, capsys: pytest.CaptureFixture[str]
) -> None:
    script = WHOLE_1.replace("LOAD", "load_tflite(model='./mobilenet_v1.tflite')")
    with pytest.raises(SystemExit) as caught:
        run(script, np=np, read=lambda path: _read(path, dog), exit=_leave)
    assert caught.value.code == -1
    assert "mobilenet_v1.tflite does not exist" in capsys.readouterr().err


def _leave(code: int) -> None:
    raise SystemExit(code)


def test_generation_2_v110(dog: np.ndarray) -> None:
    """[RKNN-T2 1.1.0, 3.5.2 to 3.5.8], and the flat lists of 3.4."""
    names = run(
        """
        from rknn.api import RKNN
        rknn = RKNN(verbose=False)
        # model config
        rknn.config(mean_values=[[103.94, 116.78, 123.68]],
        std_values=[[58.82, 58.82, 58.82]],
        quant_img_RGB2BGR=True, target_platform='rk3566')
        ret = rknn.load_onnx(model = './arcface.onnx')
        assert ret == 0
        ret = rknn.build(do_quantization=True, dataset='./dataset.txt')
        assert ret == 0
        ret = rknn.export_rknn(export_path = './mobilenet_v1.rknn')
        assert ret == 0
        ret = rknn.load_rknn(path='./mobilenet_v1.rknn')
        assert ret == 0
        ret = rknn.init_runtime(target='rk3566', device_id='012345789AB')
        assert ret == -1
        ret = rknn.init_runtime()
        assert ret == 0
        img = np.expand_dims(img, 0)
        outputs = rknn.inference(inputs=[img])
        rknn.config(mean_values=[128, 128, 128], std_values=[128, 128, 128])
        """,
        np=np,
        img=dog,
    )
    assert names["outputs"][0].shape == (1, 10)
    assert names["rknn"].generation == 2


def test_generation_2_v230(dog: np.ndarray) -> None:
    """[RKNN-T2 2.3.0, 2.3 to 2.8 and 2.13]."""
    names = run(
        """
        from rknn.api import RKNN
        rknn = RKNN()
        ret = rknn.load_onnx(model='./arcface.onnx')
        assert ret == 0
        ret = rknn.build(do_quantization=True, dataset='./dataset.txt')
        assert ret == 0
        ret = rknn.export_rknn(export_path='./mobilenet_v1.rknn')
        assert ret == 0
        # Accuracy analysis
        ret = rknn.accuracy_analysis(inputs=['./dog_224x224.jpg'])
        assert ret == 0
        ret = rknn.load_rknn(path='./mobilenet_v1.rknn')
        assert ret == 0
        assert rknn.init_runtime() == 0
        outputs = rknn.inference(inputs=[img])
        ret = rknn.init_runtime(target='rk3566')
        """,
        img=dog,
    )
    assert names["ret"] == -1
    assert Path("snapshot/error_analysis.txt").is_file()
    assert (Path("snapshot/golden").is_dir(), Path("snapshot/simulator").is_dir()) == (True, True)


def test_list_devices(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """[RKNN-T1 1.3.2, 3.6.15; RKNN-T2 2.3.0, 2.14]."""
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", "1")
    names = run(
        """
        from rknn.api import RKNN

        if __name__ == '__main__':
            rknn = RKNN()
            devices = rknn.list_devices()
            rknn.release()
        """
    )
    assert names["devices"] == ([], [])
    told = capsys.readouterr().err
    assert "W list_devices: There is no adb program on the PATH and no adb server." in told
    assert "None devices connected." in told


def test_logs_of_one_object_stay_its_own() -> None:
    first, second = RKNN(), RKNN(verbose=True)
    assert first._log.level == logging.WARNING
    assert second._log.level == logging.DEBUG
    second.release()
    first.release()
    assert first._log.handlers == []
