"""Made by scripts/make_api_stub.py: :class:`engine.api.rknn.RKNN` for static tools."""

from typing import Any, ClassVar, overload

import numpy as np

__all__ = ["RKNN"]

class RKNN:
    """Build, simulate and analyse a model as with the vendor's toolkits, and run compiled ones on
    boards.
    """

    NPU_CORE_AUTO: ClassVar[int]
    NPU_CORE_0: ClassVar[int]
    NPU_CORE_1: ClassVar[int]
    NPU_CORE_2: ClassVar[int]
    NPU_CORE_0_1: ClassVar[int]
    NPU_CORE_0_1_2: ClassVar[int]
    NPU_CORE_ALL: ClassVar[int]
    def __init__(self, verbose: bool | str = False, verbose_file: str | None = None, *, generation: int | None = None, compiler: str | None = None) -> None: ...
    @property
    def generation(self) -> int:
        """Whose rules hold: 1 or 2."""
    @overload
    def config(self, mean_values: Any = None, std_values: Any = None, quantized_dtype: Any = 'w8a8', quantized_algorithm: Any = 'normal', quantized_method: Any = 'channel', quantized_hybrid_level: Any = 0, target_platform: Any = None, quant_img_RGB2BGR: Any = False, float_dtype: Any = 'float16', optimization_level: Any = 3, custom_string: Any = None, remove_weight: Any = False, compress_weight: Any = False, inputs_yuv_fmt: Any = None, single_core_mode: Any = False, dynamic_input: Any = None, model_pruning: Any = False, op_target: Any = None, quantize_weight: Any = False, remove_reshape: Any = False, sparse_infer: Any = False, enable_flash_attention: Any = False, auto_hybrid_cos_thresh: Any = 0.98, auto_hybrid_euc_thresh: Any = None, *, batch_size: Any = 100, epochs: Any = -1, bias_correction: Any = True, quantized_layers: Any = None, quantized_ranges: Any = None) -> int | None:
        """Set parameters of the build; returns nothing, or -1 after an error."""
    @overload
    def config(self, batch_size: Any = 100, channel_mean_value: Any = None, epochs: Any = -1, reorder_channel: Any = None, need_horizontal_merge: Any = False, quantized_dtype: Any = 'asymmetric_quantized-u8', optimization_level: Any = 3, target_platform: Any = None, *, mean_values: Any = None, std_values: Any = None, quantized_algorithm: Any = 'normal', model_pruning: Any = False, quantize_input_node: Any = False, output_optimize: Any = 0, merge_dequant_layer_and_output_node: Any = False, dtype: Any = 'float32', optimize: Any = 'Default', deconv_merge: Any = True, conv_mul_merge: Any = True, force_builtin_perm: Any = False, remove_tensorflow_output_permute: Any = False, do_sparse_network: Any = True, model_data_format: Any = 'zone', restart: Any = False, quantized_moving_alpha: Any = 0.01, quantized_divergence_nbins: Any = 1024, mmse_epoch: Any = 3, input_fitting: Any = 'scale', caffe_mean_file: Any = None, mean_file: Any = None, input_normalization: Any = None, force_gray: Any = None, random_brightness: Any = None, random_contrast: Any = None, random_crop: Any = None, random_flip: Any = None, random_mirror: Any = None, samples: Any = -1, model_quantize: Any = None, quantized_hybrid: Any = False, inputs_scale_range: Any = None, bias_correction: Any = True, quantized_layers: Any = None, quantized_ranges: Any = None) -> int | None: ...
    def reg_custom_op(self, custom_op: Any) -> int:
        """Register a class with ``op_type``, ``shape_infer`` and ``compute`` for the nodes of that
        name; before the model is loaded. A second class of the same name replaces the first.
        """
    def register_op(self, op_path: Any) -> None:
        """Register an operator package (.rknnop) of generation 1, before the model is loaded."""
    def load_onnx(self, model: Any, inputs: Any = None, input_size_list: Any = None, input_initial_val: Any = None, outputs: Any = None) -> int:
        """Load an ONNX file: model, inputs=None, input_size_list=None, input_initial_val=None,
        outputs=None; ``input_initial_val`` holds arrays or None, one per input.
        """
    @overload
    def load_caffe(self, model: Any, blobs: Any = None, input_name: Any = None, *, proto: Any = 'caffe') -> int:
        """Load a Caffe network."""
    @overload
    def load_caffe(self, model: Any, proto: Any = 'caffe', blobs: Any = None, *, input_name: Any = None) -> int: ...
    @overload
    def load_tensorflow(self, tf_pb: Any, inputs: Any, input_size_list: Any, outputs: Any, input_is_nchw: Any = False, *, predef_file: Any = None) -> int:
        """Load a frozen graph: tf_pb, inputs, input_size_list, outputs, then in generation 1
        predef_file=None, mean_values=None, std_values=None, in generation 2 input_is_nchw=False.
        """
    @overload
    def load_tensorflow(self, tf_pb: Any, inputs: Any, input_size_list: Any, outputs: Any, predef_file: Any = None, mean_values: Any = None, std_values: Any = None, *, size_with_batch: Any = None, input_is_nchw: Any = False) -> int: ...
    def load_tflite(self, model: Any, input_is_nchw: Any = False) -> int:
        """Load a TensorFlow Lite model: model; generation 2 also input_is_nchw=False."""
    def load_darknet(self, model: Any, weight: Any, *, epsilon: Any = 1e-05, decode: Any = False) -> int:
        """Load a Darknet network: model (.cfg), weight (.weights)."""
    @overload
    def load_pytorch(self, model: Any, input_size_list: Any, *, inputs: Any = None, outputs: Any = None, route: Any = 'auto') -> int:
        """Load TorchScript: model, input_size_list; ours: route='auto', 'script' or 'export'."""
    @overload
    def load_pytorch(self, model: Any, input_size_list: Any = None, inputs: Any = None, outputs: Any = None, convert_engine: Any = 'torch', *, route: Any = 'auto') -> int: ...
    @overload
    def load_mxnet(self, symbol: Any, params: Any, input_size_list: Any) -> int:
        """Load an MXNet network: symbol (JSON), params, input_size_list."""
    @overload
    def load_mxnet(self, symbol: Any, params: Any, input_size_list: Any = None) -> int: ...
    def load_keras(self, *_args: Any, **_keywords: Any) -> int:
        """Refused: -1; Keras files are frozen by TensorFlow first."""
    @overload
    def build(self, do_quantization: Any = True, dataset: Any = None, rknn_batch_size: Any = None, auto_hybrid: Any = False, *, auto_hybrid_quant: Any = False, pre_compile: Any = False) -> int:
        """Build the loaded model."""
    @overload
    def build(self, do_quantization: Any = True, dataset: Any = None, pre_compile: Any = False, rknn_batch_size: Any = 1, *, auto_hybrid: Any = False, auto_hybrid_quant: Any = False) -> int: ...
    def hybrid_quantization_step1(self, dataset: Any = 'dataset.txt', rknn_batch_size: Any = None, proposal: Any = False, proposal_dataset_size: Any = 1, custom_hybrid: Any = None) -> int:
        """Write structure, data and configuration of the loaded model into the current folder."""
    def hybrid_quantization_step2(self, model_input: Any, data_input: Any, model_quantization_cfg: Any, *, dataset: Any = None, pre_compile: Any = False) -> int:
        """Build from the files of step 1, the configuration edited; no model has to be loaded."""
    def export_rknn(self, export_path: Any, *, accept_difference: bool = False, **keywords: Any) -> int:
        """Write the build as a container of ours, for simulation and inspection, or what build made
        with pre_compile; it overwrites.
        """
    def export_rknn_precompile_model(self, export_path: Any = None) -> int:
        """Write what a board of generation 1 precompiles of a model, which load_rknn loaded and
        init_runtime(target=..., rknn2precompile=True) sent; by the vendor's toolkit.
        """
    def export_rknn_sync_model(self, input_model: Any = None, sync_uids: Any = None, output_model: Any = None) -> int:
        """Cut a model into segments behind the layers of ``sync_uids``, as eval_perf prints them."""
    def export_encrypted_rknn_model(self, input_model: Any, output_model: Any = None, crypt_level: Any = 1, *, key_file: Any = None) -> int:
        """Encrypt a compiled model by the vendor's toolkit, or a container of ours with a key."""
    def load_rknn(self, path: Any, *, load_model_in_npu: Any = False, key_file: Any = None) -> int:
        """Load a compiled model of the vendor to run it on a board, or a container of ours to
        simulate it: path, load_model_in_npu=False, which is True for a path on the board.
        """
    def init_runtime(self, target: Any = None, device_id: Any = None, perf_debug: Any = False, eval_mem: Any = False, async_mode: Any = False, core_mask: Any = 0, fallback_prior_device: Any = 'cpu', *, target_sub_class: Any = None, rknn2precompile: Any = False, arithmetic: Any = 'integer') -> int:
        """Get ready to run: on the board of a ``target``, else in the simulator."""
    @overload
    def inference(self, inputs: Any, data_format: Any = None, inputs_pass_through: Any = None, get_frame_id: Any = False, *, data_type: Any = None) -> list[np.ndarray] | None:
        """Run inputs; a list of ndarray, or None after an error."""
    @overload
    def inference(self, inputs: Any, data_type: Any = 'uint8', data_format: Any = 'nhwc', inputs_pass_through: Any = None, *, get_frame_id: Any = False) -> list[np.ndarray] | None: ...
    @overload
    def eval_perf(self, is_print: Any = True, fix_freq: Any = True, *, inputs: Any = None, data_type: Any = None, data_format: Any = None, loop_cnt: Any = None) -> Any:
        """Time the model; generation 1 a dictionary, generation 2 text."""
    @overload
    def eval_perf(self, inputs: Any = None, data_type: Any = None, data_format: Any = None, is_print: Any = True, loop_cnt: Any = None, *, fix_freq: Any = False) -> Any: ...
    def eval_memory(self, is_print: Any = True) -> Any:
        """What the model takes, in bytes, a dictionary."""
    def get_sdk_version(self) -> str | None:
        """Versions of the board's runtime, server and driver, as the manual prints them."""
    def list_support_target_platform(self, rknn_model: Any = None) -> Any:
        """The chips that a compiled model can run on, a dictionary; without a model the chips of
        each toolkit are printed, and None is returned.
        """
    @overload
    def accuracy_analysis(self, inputs: Any, output_dir: Any = './snapshot', target: Any = None, device_id: Any = None, *, calc_qnt_error: Any = True, compiled: Any = None) -> int:
        """Write golden and simulated tensors of every layer and their errors; after ``build``."""
    @overload
    def accuracy_analysis(self, inputs: Any, output_dir: Any = './snapshot', calc_qnt_error: Any = True, *, target: Any = None, device_id: Any = None, dump_file_type: Any = 'tensor', compiled: Any = None) -> int: ...
    def codegen(self, output_path: Any, inputs: Any = None, overwrite: Any = False, *, language: Any = 'cpp', task: Any = 'none', chip: Any = None, model: Any = None) -> int:
        """Write a C++ project that runs the model on a board, with its golden outputs."""
    def list_devices(self) -> tuple[list[str], list[str]]:
        """Serial numbers of the boards in reach: by adb, and by ntb."""
    def release(self) -> None:
        """Forget the model and close the log file."""
    def direct_build(self, *args: Any, **keywords: Any) -> int:
        """Call load_... and build, or hybrid_quantization_step2 with the files of hybrid_quantization_step1."""
    def load_firmware(self, *args: Any, **keywords: Any) -> int:
        """The firmware of a compute stick comes with its own tools."""
    def fetch_rknn_model_config(self, *args: Any, **keywords: Any) -> int:
        """Use `rknntui inspect FILE.rknn`; it reads models of every version."""
    def optimize_onnx(self, *args: Any, **keywords: Any) -> int:
        """build optimises; `rknntui export --format onnx` writes what it made."""
