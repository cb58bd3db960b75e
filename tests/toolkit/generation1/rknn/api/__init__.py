"""A stand-in for ``rknn.api`` of rknn-toolkit (generation 1), by its manual V1.3.2 and the
vendor's comparison of the two toolkits. In the language of Python 3.6; it needs no numpy.

Every source model stands for one small net: ``relu((x - mean) / std)`` of a picture. ``build``
makes a layer list of it in the published form of the container, ``load_rknn`` reads such a list,
and ``inference`` computes it, for the "simulator" and for boards alike. Times and sizes of boards
are made up of the number of layers and the size of the file. ``STANDIN_BOARDS`` names the boards
(``ntb:SERIAL adb:SERIAL``) and ``STANDIN_FAULT`` what goes wrong: ``METHOD:exit``, ``_exit``,
``abort``, ``hang``, ``garbage``, ``flood``, ``raise``, ``memory``, ``disk``, ``kill``.
"""

import contextlib
import ctypes
import json
import os
import struct
import sys
import time

__all__ = ["RKNN"]

_BOARDS = ("rk3399pro", "rk1808", "rv1109", "rv1126")
_MEAN, _STD = [104.0, 117.0, 123.0], [58.0, 57.0, 56.0]


def _say(level, text):
    print("%s [standin:1] %s" % (level, text), flush=True)


class RKNN:
    """The class of the manual, section 3.6."""

    def __init__(self, verbose=False, verbose_file=None):
        self._verbose, self._given, self._model, self._target = verbose, {}, None, None
        self._size, self._perf, self._memory = 0, False, False
        _fault("RKNN")

    def config(
        self, batch_size=100, channel_mean_value=None, epochs=-1, reorder_channel="0 1 2",
        need_horizontal_merge=False, quantized_dtype="asymmetric_affine-u8",
        optimization_level=3, target_platform=None, mean_values=None, std_values=None,
        quantized_algorithm="normal",
    ):  # fmt: skip
        _fault("config")
        self._given = {"mean": mean_values, "std": std_values, "platform": target_platform}

    def load_caffe(self, model, proto="caffe", blobs=None):
        return self._load("load_caffe", model)

    def load_tensorflow(self, tf_pb, inputs, input_size_list, outputs, predef_file=None,
                        mean_values=None, std_values=None):  # fmt: skip
        return self._load("load_tensorflow", tf_pb)

    def load_tflite(self, model):
        return self._load("load_tflite", model)

    def load_onnx(self, model):
        return self._load("load_onnx", model)

    def load_darknet(self, model, weight):
        return self._load("load_darknet", model, weight)

    def load_pytorch(self, model, input_size_list=None):
        return self._load("load_pytorch", model)

    def load_mxnet(self, symbol, params, input_size_list=None):
        return self._load("load_mxnet", symbol, params)

    def _load(self, method, *paths):
        _fault(method)
        for path in paths:
            if not os.path.isfile(path):
                _say("E", "%s: %s does not exist" % (method, path))
                return -1
            with open(path, "rb") as stream:
                stream.read(1)
        mean = self._given.get("mean") or [_MEAN]
        std = self._given.get("std") or [_STD]
        self._model = _layer_list(self._given.get("platform") or ["rk1808"], mean[0], std[0])
        return 0

    def build(self, do_quantization=True, dataset="dataset.txt", pre_compile=False,
              rknn_batch_size=-1):  # fmt: skip
        if self._model is None:
            _say("E", "build: no model is loaded")
            return -1
        _say("I", "op_optimize: node name: relu_1")
        _fault("build")
        if do_quantization and not os.path.isfile(dataset):
            _say("E", "Dataset file: %s not found!" % dataset)
            return -1
        if do_quantization:
            with open(dataset) as lines:
                for name in lines.read().split():
                    with open(os.path.join(os.path.dirname(dataset), name), "rb") as stream:
                        stream.read(1)
        with open("check_quantize.onnx", "w") as stream:  # as the toolkit does
            stream.write("x" * 1000)
        self._data = _nbg() if pre_compile else b""
        return 0

    def export_rknn(self, export_path):
        _fault("export_rknn")
        if self._model is None:
            return -1
        with open(export_path, "wb") as stream:
            stream.write(_container(self._model, getattr(self, "_data", b"")))
        return 0

    def load_rknn(self, path, load_model_in_npu=False):
        _fault("load_rknn")
        try:
            with open(path, "rb") as stream:
                content = stream.read()
            self._model, self._size = _read_container(content), len(content)
        except (OSError, ValueError, struct.error) as error:
            _say("E", "load_rknn: %s" % error)
            return -1
        return 0

    def init_runtime(self, target=None, target_sub_class=None, device_id=None, perf_debug=False,
                     eval_mem=False, async_mode=False, rknn2precompile=False):  # fmt: skip
        _fault("init_runtime")
        if self._model is None:
            _say("E", "init_runtime: no model is loaded")
            return -1
        if target is not None:
            adb, ntb = _boards()
            if target not in _BOARDS or target not in self._model["target_platform"]:
                _say("E", "The model is not for target %s" % target)
                return -1
            if device_id is not None and device_id not in adb + ntb:
                _say("E", "device %s is not found" % device_id)
                return -1
            if not adb + ntb:
                _say("E", "no device is connected")
                return -1
        self._target, self._perf, self._memory = target or "simulator", perf_debug, eval_mem
        return 0

    def inference(self, inputs, data_type=None, data_format=None, inputs_pass_through=None,
                  get_frame_id=False):  # fmt: skip
        self._require()
        _fault("inference")
        return [_relu(inputs[0], self._model, data_format or "nhwc")]

    def eval_perf(self, inputs=None, data_type=None, data_format=None, is_print=True, loop_cnt=1):
        self._require()
        _fault("eval_perf")
        times = [10 + 5 * at for at, _ in enumerate(self._model["nodes"])]
        found = {"total_time": sum(times)}
        if self._perf or self._target == "simulator":
            found["layers"] = {
                str(at): {"name": node["name"], "operation": node["op"], "time": times[at]}
                for at, node in enumerate(self._model["nodes"])
            }
        if is_print:
            print("Total Time(us): %d\nFPS: %.2f" % (sum(times), 1e6 / sum(times)))
        return found

    def eval_memory(self, is_print=True):
        self._require()
        _fault("eval_memory")
        if not self._memory or self._target == "simulator":
            _say("E", "Please set eval_mem = True when calling init_runtime with a target")
            return -1
        one = self._size * 1000
        sums = {
            "system_memory": {"maximum_allocation": one, "total_allocation": 3 * one},
            "npu_memory": {"maximum_allocation": 2 * one, "total_allocation": 4 * one},
            "total_memory": {"maximum_allocation": 3 * one, "total_allocation": 7 * one},
        }
        if is_print:
            print("Memory Profile Info Dump\n%s" % json.dumps(sums, indent=1))
        return sums

    def get_sdk_version(self):
        self._require()
        return "RKNNAPI: API: 1.3.2 (7c17e39 build: stand-in)\nRKNNAPI: DRV: 1.3.2 (stand-in)"

    def hybrid_quantization_step1(self, dataset=None):
        return -1 if self._model is None else 0

    def hybrid_quantization_step2(self, model_input, data_input, model_quantization_cfg,
                                  dataset="dataset.txt", pre_compile=False):  # fmt: skip
        return 0 if os.path.isfile(model_quantization_cfg) else -1

    def accuracy_analysis(self, inputs, output_dir="./snapshot", calc_qnt_error=True, target=None,
                          device_id=None, dump_file_type="tensor"):  # fmt: skip
        return -1 if self._model is None else 0

    def export_rknn_sync_model(self, input_model=None, sync_uids=None, output_model=None):
        """A layer SYNC behind each layer of these uids; an unknown uid is not looked for."""
        _fault("export_rknn_sync_model")
        try:
            with open(input_model, "rb") as stream:
                model = _read_container(stream.read())
        except (OSError, TypeError, ValueError, struct.error) as error:
            _say("E", "export_rknn_sync_model: %s" % error)
            return -1
        for node in list(model["nodes"]):
            if node.get("uid") in (sync_uids or []):
                place, number = model["nodes"].index(node) + 1, len(model["nodes"])
                sync = {"lid": "sync_%d" % number, "name": "sync", "op": "RKNN_OP_SYNC", "nn": {}}
                model["nodes"].insert(place, sync)
        with open(output_model or input_model, "wb") as stream:
            stream.write(_container(model, b""))
        return 0

    def export_rknn_precompile_model(self, export_path=None):
        if self._target in (None, "simulator"):
            _say("E", "export_rknn_precompile_model: needs a board")
            return -1
        with open(export_path, "wb") as stream:
            stream.write(_container(self._model, _nbg()))
        return 0

    def list_devices(self):
        return _boards()

    def register_op(self, op_path):
        return None

    def list_support_target_platform(self, rknn_model=None):
        if rknn_model is None:
            return None
        with open(rknn_model, "rb") as stream:
            return {"support_target_platform": _read_container(stream.read())["target_platform"]}

    def release(self):
        _fault("release")
        self._model = self._target = None

    def _require(self):
        if self._target is None:
            _say("E", "init_runtime was not called")
            raise RuntimeError("init_runtime was not called")


def _boards():
    named = [one.partition(":") for one in os.environ.get("STANDIN_BOARDS", "").split()]
    kinds = [[serial for kind, _, serial in named if kind == wanted] for wanted in ("adb", "ntb")]
    return kinds[0], kinds[1]


def _relu(values, model, layout):
    """``relu((x - mean) / std)`` of an NHWC or NCHW array, as NCHW float32."""
    mean, std = model["mean_value"], model["std_value"]
    width, height, channels, batch = model["norm_tensor"][0]["size"]
    flat = values.tobytes()
    code = "B" if values.nbytes == width * height * channels * batch else "f"
    numbers = memoryview(flat).cast(code)
    found = []
    for c in range(channels):
        for at in range(height * width):
            place = c * height * width + at if layout == "nchw" else at * channels + c
            found.append(max(0.0, (numbers[place] - mean[c]) / std[c]))
    packed = struct.pack("<%df" % len(found), *found)
    shape = [batch, channels, height, width]
    if "numpy" in sys.modules:
        return sys.modules["numpy"].frombuffer(packed, "<f4").reshape(shape)
    return memoryview(packed).cast("f", shape)


def _layer_list(platforms, mean, std):
    """The list of a RELU of a picture of 3 x 6 x 8."""
    platforms = [platforms] if isinstance(platforms, str) else platforms
    dtype = {"vx_type": "VSI_NN_TYPE_UINT8", "qnt_type": "VSI_NN_QNT_TYPE_AFFINE_ASYMMETRIC"}
    tensors = [
        {"tensor_id": at, "size": [8, 6, 3, 1], "dim_num": 4,
         "dtype": dict(dtype, scale=0.5, zero_point=0)}
        for at in range(2)
    ]  # fmt: skip
    sides = [("input", 0), ("output", 1)]
    return {
        "network_platform": "onnx", "ori_network_platform": "onnx", "name": "stand-in",
        "version": "1.3.2", "ovxlib_version": "1.1.30", "target_platform": list(platforms),
        "mean_value": list(mean), "mean_value_chns": [3], "std_value": list(std),
        "reorder": [0, 1, 2],
        "nodes": [
            {"lid": "relu_1", "name": "relu", "op": "VSI_NN_OP_RELU", "uid": 1, "nn": {}}
        ],
        "norm_tensor": tensors, "const_tensor": [], "virtual_tensor": [],
        "connection": [
            {"node_id": 0, "left": side, "left_tensor_id": 0,
             "right_tensor": {"type": "norm_tensor", "tensor_id": number}}
            for side, number in sides
        ],
        "graph": [
            {"left": side, "left_tensor_id": 0, "right": "norm_tensor", "right_tensor_id": number}
            for side, number in sides
        ],
    }  # fmt: skip


def _container(listed, data):
    text = json.dumps(listed).encode()
    head = b"RKNN" + struct.pack("<IQQ", 0, 2, len(data)) + (bytes(40) if data else b"")
    return head + data + struct.pack("<Q", len(text)) + text


def _read_container(content):
    if content[:4] != b"RKNN":
        raise ValueError("it is no model of generation 1")
    _, version, size = struct.unpack_from("<IQQ", content, 4)
    at = 24 + (40 if size and version & 255 > 1 else 0) + size
    (length,) = struct.unpack_from("<Q", content, at)
    listed = json.loads(content[at + 8 : at + 8 + length].decode())
    if "nodes" not in listed:
        raise ValueError("it has no layers")
    return listed


def _nbg():
    """A precompiled graph of the form that Netron reads, with one layer."""
    head = b"VPMN" + struct.pack("<HH4s64sI", 4, 7, b"", b"net", 1)
    entry = b"RELU".ljust(64, b"\0") + struct.pack("<3I", 5, 1, 2)
    return head + bytes(296) + struct.pack("<6I", 0, 0, 0, 0, len(head) + 320, len(entry)) + entry


def _fault(method):
    """Do what ``STANDIN_FAULT`` says for this method."""
    where, _, kind = os.environ.get("STANDIN_FAULT", "").partition(":")
    if where == method:
        _FAULTS[kind]()


def _abort():
    libc = ctypes.CDLL(None)
    libc.printf(
        b"E [native:9] layer 'conv_7' is too wide for the NPU\n"
    )  # no fflush: libc keeps it
    libc.abort()


def _garbage():
    """What a library does that writes to descriptors that it does not own."""
    for number in range(3, 20):
        with contextlib.suppress(OSError):
            os.write(number, b"I [native:1] done\n")
    time.sleep(60)


def _flood():
    for at in range(200000):
        sys.stdout.write("I [standin:1] line %d %s\n" % (at, "x" * 400))


def _memory():
    held = [bytearray(16 << 20) for _ in range(4096)]
    sys.exit(len(held))


def _disk():
    with open("large", "wb") as stream:
        stream.writelines(bytes(1 << 20) for _ in range(4096))


_FAULTS = {
    "exit": lambda: sys.exit(3),
    "_exit": lambda: os._exit(7),
    "abort": _abort,
    "hang": lambda: ctypes.PyDLL(None).sleep(600),  # with the interpreter's lock held
    "garbage": _garbage,
    "flood": _flood,
    "raise": lambda: {}["a layer"],
    "memory": _memory,
    "disk": _disk,
    "kill": lambda: os.kill(os.getpid(), 9),
}
