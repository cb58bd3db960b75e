"""``RKNN``: the vendor's class with both manuals' methods, arguments, defaults and return
values.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from engine.api.compiled import compiler_of, export_compiled
from engine.api.deployment import Deployment, converts, model_on_board
from engine.api.later_toolkits import LATER_METHODS
from engine.api.log import close_log, open_log, path_text, returns_status
from engine.api.script import Script
from engine.api.session import Session
from engine.api.signatures import Parameters, bind, passed_names, with_signatures
from engine.base.errors import UsageError
from engine.base.events import CallbackReporter, Event, LogLine, StageFinished
from engine.base.files import atomic_write
from engine.base.text import sanitize
from engine.report import CONTAINER_NOTE, summary_text

if TYPE_CHECKING:
    from engine.options import Values
    from engine.pipeline.pipeline import Pipeline


@with_signatures
class RKNN:
    """Build, simulate and analyse a model as with the vendor's toolkits, and run compiled ones on
    boards.

    Methods return 0, or -1 after an error that is logged to standard error, unless they say
    something else. Which generation's rules hold is said by ``generation``, else decided by the
    first ``config`` call (by ``target_platform``, else by arguments that only one has, else 2).

    Args:
        verbose: log details too; ``'Debug'`` is the same.
        verbose_file: with ``verbose``, also log to this file.
        generation: 1 for RKNN-Toolkit (RK1808, RK3399Pro, RV1109, RV1126), 2 for RKNN-Toolkit2.
        compiler: what ``export_rknn`` writes: ``open``, a container of ours; ``rockchip``, what the
            vendor's toolkit compiles for the NPU. None: as RKNNTUI_COMPILER says, else ``open``.

    Raises:
        UsageError: ``generation`` or ``compiler`` is something else.
        OutputError: ``verbose_file`` cannot be written.
    """

    NPU_CORE_AUTO: ClassVar[int] = 0
    NPU_CORE_0: ClassVar[int] = 1
    NPU_CORE_1: ClassVar[int] = 2
    NPU_CORE_2: ClassVar[int] = 4
    NPU_CORE_0_1: ClassVar[int] = 3
    NPU_CORE_0_1_2: ClassVar[int] = 7
    NPU_CORE_ALL: ClassVar[int] = 0xFFFF

    def __init__(
        self,
        verbose: bool | str = False,
        verbose_file: str | None = None,
        *,
        generation: int | None = None,
        compiler: str | None = None,
    ) -> None:
        if generation not in (None, 1, 2):
            raise UsageError(f"generation is {generation!r}; it must be 1 or 2.")
        self._compiler = compiler_of(compiler)
        self._log = open_log(verbose, verbose_file)
        self._generation = generation
        self._reporter = CallbackReporter(self._on_event)
        self._script = Script(self._reporter)
        self._build: Pipeline | None = None
        self._container: bytes | None = None
        self._loaded: Path | None = None
        self._session = Session(self._log)
        self._deployment = Deployment(self._log, self._reporter)
        self._in_npu: str | None = None

    def __getattr__(self, name: str) -> Any:
        if name not in LATER_METHODS:
            raise AttributeError(f"'RKNN' object has no attribute {name!r}")

        def later(*_args: Any, **_keywords: Any) -> int:
            self._log.error("%s: This version does not have it. %s", name, LATER_METHODS[name])
            return -1

        return later

    @property
    def generation(self) -> int:
        """Whose rules hold: 1 or 2."""
        return self._generation or 2

    def _on_event(self, event: Event) -> None:
        if isinstance(event, LogLine):
            levels = {"debug": 10, "info": 20, "warning": 30, "error": 40}
            self._log.log(levels[event.level], "%s", sanitize(event.text, 2000))
        elif isinstance(event, StageFinished):
            how = "from the cache" if event.cached else f"{event.seconds:.2f} s"
            self._log.info("%s: %s", event.stage, how)

    @returns_status(-1)
    def config(self, *args: Any, **keywords: Any) -> int | None:
        """Set parameters of the build; returns nothing, or -1 after an error.

        Generation 1 (V1.3.2): batch_size=100, channel_mean_value, epochs=-1, reorder_channel,
        need_horizontal_merge=False, quantized_dtype='asymmetric_quantized-u8',
        optimization_level=3, target_platform=['rk1808'].
        Generation 2 (V2.3.0, the order of the vendor's code): mean_values, std_values,
        quantized_dtype='w8a8', quantized_algorithm='normal', quantized_method='channel',
        quantized_hybrid_level=0, target_platform, quant_img_RGB2BGR=False, float_dtype='float16',
        optimization_level=3, custom_string, and so on. Positional arguments need ``generation``.
        """
        from engine.api.configuration import configure, detect_generation
        from engine.recipe import Recipe

        self._script.refused = True
        if self._generation is None:
            self._generation = detect_generation(args, keywords)
        call = ("config", self._generation, args, keywords)
        configuration = configure(self._generation, bind(*call), passed_names(*call))
        Recipe.from_values({k: v for k, v in configuration.values.items() if v is not None})
        for warning in configuration.warnings:
            self._log.warning("%s", warning)
        self._script.config, self._script.refused = configuration, False
        self._deployment.note("config", self._generation, args, keywords)
        return None

    @returns_status(-1)
    def reg_custom_op(self, custom_op: Any) -> int:
        """Register a class with ``op_type``, ``shape_infer`` and ``compute`` for the nodes of that
        name; before the model is loaded. A second class of the same name replaces the first.
        """
        from engine.api.custom_op import registered

        self._script.operators = registered(self._script.operators, custom_op, self._log)
        return 0

    @returns_status(None)
    def register_op(self, op_path: Any) -> None:
        """Register an operator package (.rknnop) of generation 1, before the model is loaded.

        The operator is opaque: it is shown and kept, and does not run here unless a class for it is
        registered too (``reg_custom_op``). Returns nothing; an error is in the log.
        """
        from engine.api.custom_op import registered_package

        path = Path(path_text(op_path, "op_path"))
        self._script.operators = registered_package(self._script.operators, path, self._log)
        self._deployment.note("register_op", self.generation, (op_path,), {})

    @returns_status(-1)
    def load_onnx(self, *args: Any, **keywords: Any) -> int:
        """Load an ONNX file: model, inputs=None, input_size_list=None, input_initial_val=None,
        outputs=None; ``input_initial_val`` holds arrays or None, one per input.
        """
        return self._load("load_onnx", args, keywords)

    @returns_status(-1)
    def load_caffe(self, *args: Any, **keywords: Any) -> int:
        """Load a Caffe network.

        Generation 1: model (prototxt), proto='caffe', blobs=None. Generation 2: model, blobs=None,
        input_name=None; V1.1.0's order model, proto, blobs, input_name is taken too. Without blobs
        the weights are random, from a fixed seed.
        """
        return self._load("load_caffe", args, keywords)

    @returns_status(-1)
    def load_tensorflow(self, *args: Any, **keywords: Any) -> int:
        """Load a frozen graph: tf_pb, inputs, input_size_list, outputs, then in generation 1
        predef_file=None, mean_values=None, std_values=None, in generation 2 input_is_nchw=False.
        """
        return self._load("load_tensorflow", args, keywords)

    @returns_status(-1)
    def load_tflite(self, *args: Any, **keywords: Any) -> int:
        """Load a TensorFlow Lite model: model; generation 2 also input_is_nchw=False."""
        return self._load("load_tflite", args, keywords)

    @returns_status(-1)
    def load_darknet(self, *args: Any, **keywords: Any) -> int:
        """Load a Darknet network: model (.cfg), weight (.weights).

        Ours: epsilon=1e-5 of batch normalisation, and decode=False: whether the heads become boxes
        and scores.
        """
        return self._load("load_darknet", args, keywords)

    @returns_status(-1)
    def load_pytorch(self, *args: Any, **keywords: Any) -> int:
        """Load TorchScript: model, input_size_list; ours: route='auto', 'script' or 'export'."""
        return self._load("load_pytorch", args, keywords)

    @returns_status(-1)
    def load_mxnet(self, *args: Any, **keywords: Any) -> int:
        """Load an MXNet network: symbol (JSON), params, input_size_list."""
        return self._load("load_mxnet", args, keywords)

    @returns_status(-1)
    def load_keras(self, *_args: Any, **_keywords: Any) -> int:
        """Refused: -1; Keras files are frozen by TensorFlow first."""
        raise UsageError(
            "load_keras is not available: a Keras file holds code beside its weights.",
            remedy="Convert it where Keras is: "
            "tf.lite.TFLiteConverter.from_keras_model(model).convert(), then load_tflite.",
        )

    def _load(self, method: str, args: tuple[Any, ...], keywords: Parameters) -> int:
        arguments = bind(method, self.generation, args, keywords)
        self._script.take_source(method, arguments)
        self._deployment.note(method, self.generation, args, keywords)
        self._forget_build()
        try:
            pipeline = self._pipeline({"do_quantization": False})
            for finding in pipeline.loaded.findings:
                self._log.info("load: %s: %s", finding.where, finding.what)
        except BaseException:
            self._script.forget_source()
            raise
        return 0

    def _forget_build(self) -> None:
        self._build = self._container = self._loaded = self._in_npu = None
        self._deployment.forget_model()
        self._session.close()

    def _pipeline(self, changes: Values) -> Pipeline:
        return self._script.pipeline(self.generation, changes)

    @returns_status(-1)
    def build(self, *args: Any, **keywords: Any) -> int:
        """Build the loaded model.

        Generation 1: do_quantization=True, dataset, pre_compile=False, rknn_batch_size=1; with
        pre_compile the vendor's toolkit of generation 1 makes what export_rknn writes.
        Generation 2: do_quantization=True, dataset, rknn_batch_size=None, auto_hybrid=False.
        """
        from engine.api.configuration import build_changes
        from engine.pipeline.build import build

        arguments = bind("build", self.generation, args, keywords)
        self._script.require_source()
        changes = build_changes(self.generation, arguments)
        pre_compile = self._deployment.require(arguments, self.generation)
        self._forget_build()
        pipeline = self._pipeline(changes)
        result = build(pipeline)
        if pre_compile:
            self._deployment.build(args, keywords)
        self._build, self._container = pipeline, result.container
        self._log.info("%s", summary_text(result.summary), extra={"plain": True})
        return 0

    @returns_status(-1)
    def hybrid_quantization_step1(self, *args: Any, **keywords: Any) -> int:
        """Write structure, data and configuration of the loaded model into the current folder.

        Generation 1: dataset. Generation 2: dataset, rknn_batch_size=None, proposal=False,
        proposal_dataset_size=1, custom_hybrid=None.
        """
        from engine.api.hybrid import run_step1, step1_changes, step1_name

        arguments = bind("hybrid_quantization_step1", self.generation, args, keywords)
        self._script.require_source()
        pipeline = self._pipeline(step1_changes(arguments))
        run_step1(pipeline, arguments, self._log, step1_name(pipeline, self.generation))
        return 0

    @returns_status(-1)
    def hybrid_quantization_step2(self, *args: Any, **keywords: Any) -> int:
        """Build from the files of step 1, the configuration edited; no model has to be loaded.

        Both: model_input, data_input, model_quantization_cfg; generation 1 also dataset=None,
        pre_compile=False.
        """
        from engine.api.hybrid import run_step2

        arguments = bind("hybrid_quantization_step2", self.generation, args, keywords)
        pre_compile = self._deployment.require(arguments, self.generation)
        self._forget_build()
        if pre_compile:
            self._deployment.step2(args, keywords)
            return 0
        done = run_step2(arguments, self._log, self._reporter, self._script.operators)
        self._build, self._container = done.result.pipeline, done.result.container
        return 0

    @returns_status(-1)
    def export_rknn(
        self, export_path: Any, *, accept_difference: bool = False, **keywords: Any
    ) -> int:
        """Write the build as a container of ours, for simulation and inspection, or what build made
        with pre_compile; it overwrites.

        With the compiler ``rockchip`` (see the class) the vendor's toolkit compiles the build for
        ``target_platform``, and the file runs on its NPU. It is not written where the vendor's
        simulator computes something else than the build, unless ``accept_difference`` (ours).
        """
        if keywords:
            self._log.warning("export_rknn: %s has no effect.", ", ".join(keywords))
        path = Path(path_text(export_path, "export_path"))
        if self._deployment.export(path):
            return 0
        if self._container is None:
            raise UsageError("There is nothing to export.", remedy="Call build first.")
        if self._compiler == "rockchip" and self._build is not None:
            export_compiled(
                self._build, self._target(), path, self._log, accept_difference=accept_difference
            )
            return 0
        atomic_write(path, self._container, overwrite=True)
        self._log.warning("export_rknn: %s", CONTAINER_NOTE)
        return 0

    def _target(self) -> str | None:
        """The chip of ``config``, else of the build (hybrid step 2 has that of step 1), else of
        generation 1 its default.
        """
        configuration = self._script.config
        target = None if configuration is None else configuration.values.get("target_platform")
        if target is None and self._build is not None:
            target = self._build.recipe.target.target_platform
        return (
            "rk1808"
            if target is None and configuration is None and self.generation == 1
            else target
        )

    @returns_status(-1)
    def export_rknn_precompile_model(self, export_path: Any = None) -> int:
        """Write what a board of generation 1 precompiles of a model, which load_rknn loaded and
        init_runtime(target=..., rknn2precompile=True) sent; by the vendor's toolkit.
        """
        self._deployment.export_precompiled(export_path)
        return 0

    @returns_status(-1)
    def export_rknn_sync_model(
        self, input_model: Any = None, sync_uids: Any = None, output_model: Any = None
    ) -> int:
        """Cut a model into segments behind the layers of ``sync_uids``, as eval_perf prints them.

        A container of ours here; a model of generation 1 by the vendor's toolkit. Without
        ``output_model`` it goes into ``input_model``.
        """
        from engine.api.deployment import export_sync_model

        summary = export_sync_model(input_model, sync_uids, output_model, self._reporter)
        self._log.info("export_rknn_sync_model: %s", summary)
        return 0

    @returns_status(-1)
    def export_encrypted_rknn_model(
        self,
        input_model: Any,
        output_model: Any = None,
        crypt_level: Any = 1,
        *,
        key_file: Any = None,
    ) -> int:
        """Encrypt a compiled model by the vendor's toolkit, or a container of ours with a key.

        Without ``output_model`` it is NAME.crypt.rknn beside it. The key is that of ``key_file``
        (ours), else that of the environment (RKNNTUI_KEY_FILE, RKNNTUI_KEY).
        """
        from engine.api.deployment import export_encrypted_model

        export_encrypted_model(
            input_model, output_model, crypt_level, key_file, self._log, self._reporter
        )
        return 0

    @returns_status(-1)
    def load_rknn(self, *args: Any, **keywords: Any) -> int:
        """Load a compiled model of the vendor to run it on a board, or a container of ours to
        simulate it: path, load_model_in_npu=False, which is True for a path on the board.

        Ours: key_file=None, with the key of an encrypted container.
        """
        from engine.container.keys import hold_key, key_of_file
        from engine.devices.board.model_file import model_file
        from engine.pipeline.runner import load_packed

        arguments = bind("load_rknn", self.generation, args, keywords)
        path = Path(path_text(arguments["path"], "path"))
        if arguments["load_model_in_npu"] and self._generation == 2:
            raise UsageError(
                "load_model_in_npu is of generation 1.",
                remedy="Leave it at False; the file is sent once and kept on the board.",
            )
        if arguments["key_file"] is not None:
            hold_key(key_of_file(Path(path_text(arguments["key_file"], "key_file"))))
        if not arguments["load_model_in_npu"] and model_file(path).ours:
            load_packed(path)
        self._script.forget_source()
        self._forget_build()
        if arguments["load_model_in_npu"]:
            self._in_npu = str(path)
        else:
            self._loaded = path
        return 0

    @returns_status(-1)
    def init_runtime(self, *args: Any, **keywords: Any) -> int:
        """Get ready to run: on the board of a ``target``, else in the simulator.

        Both: target=None, device_id=None, perf_debug=False, eval_mem=False, async_mode=False;
        generation 2 also core_mask=RKNN.NPU_CORE_AUTO, fallback_prior_device='cpu'.
        A board runs what load_rknn loaded: the vendor's compiled model. ``device_id`` is as of
        list_devices, or ``ssh:user@host``, or ``local``.
        """
        arguments = bind("init_runtime", self.generation, args, keywords)
        if self._build is None and self._loaded is None and self._in_npu is None:
            raise UsageError(
                "There is nothing to run.", remedy="Call build or load_rknn before init_runtime."
            )
        self._session.close()
        self._deployment.close()
        model: Path | bytes = self._loaded or self._container or b""
        if self._in_npu is not None:
            model = model_on_board(self._in_npu, arguments["target"], arguments["device_id"])
        if converts(arguments):
            self._deployment.convert(model, arguments)
        elif arguments["target"] is not None:
            self._session.start_board(model, arguments, self.generation)
        else:
            self._session.start_simulator(
                self._build, self._loaded, arguments, self.generation, self._script.operators
            )
        return 0

    @returns_status(None)
    def inference(self, *args: Any, **keywords: Any) -> list[np.ndarray] | None:
        """Run inputs; a list of ndarray, or None after an error.

        Generation 1: inputs, data_type='uint8', data_format='nhwc', inputs_pass_through=None.
        Generation 2: inputs, data_format=None (all NHWC), inputs_pass_through=None.
        Outputs are float32 in the model's own layout: simulated, or those of the board.
        """
        return self._session.run(bind("inference", self.generation, args, keywords))

    @returns_status(-1)
    def eval_perf(self, *args: Any, **keywords: Any) -> Any:
        """Time the model; generation 1 a dictionary, generation 2 text.

        On the board of ``init_runtime``'s target: measured. In the simulator: what the build would
        take on its ``target_platform``, layer by layer, estimated; ``core_mask`` counts.

        Generation 1: inputs=None, data_type=None, data_format=None, is_print=True, loop_cnt=None
        (ten inferences; the time is their median).
        Generation 2: is_print=True, fix_freq=True: the clocks are restored afterwards.
        """
        arguments = bind("eval_perf", self.generation, args, keywords)
        return self._session.perf(arguments, self.generation)

    @returns_status(-1)
    def eval_memory(self, *args: Any, **keywords: Any) -> Any:
        """What the model takes, in bytes, a dictionary.

        On the board of ``init_runtime``'s target: measured. In the simulator: weights and tensors
        of the build on its ``target_platform``, estimated.

        Both: is_print=True. Generation 1's C API has no such figure:
        there the vendor's toolkit is asked, where ``rknntui vendor adopt`` has named one.
        """
        arguments = bind("eval_memory", self.generation, args, keywords)
        return self._session.memory(arguments, self.generation, len(self._container or b""))

    @returns_status(None)
    def get_sdk_version(self) -> str | None:
        """Versions of the board's runtime, server and driver, as the manual prints them."""
        return self._session.board.versions().value()

    @returns_status(-1)
    def list_support_target_platform(self, rknn_model: Any = None) -> Any:
        """The chips that a compiled model can run on, a dictionary; without a model the chips of
        each toolkit are printed, and None is returned.
        """
        from engine.api.platforms import list_support_target_platform

        return list_support_target_platform(rknn_model, self._log)

    @returns_status(-1)
    def accuracy_analysis(self, *args: Any, **keywords: Any) -> int:
        """Write golden and simulated tensors of every layer and their errors; after ``build``.

        Generation 1: inputs (a dataset file of one line), output_dir, calc_qnt_error=True.
        Generation 2: inputs (a list of paths), output_dir='./snapshot', target=None,
        device_id=None. With a target the layers of that board, too; a real board needs
        ``compiled`` (ours): the compiled model of ``rknntui export --layers``. An existing folder
        of an earlier analysis is replaced.
        """
        from engine.api.analysis import analyse_inputs

        arguments = bind("accuracy_analysis", self.generation, args, keywords)
        if self._build is None:
            raise UsageError(
                "There is no build to analyse.",
                cause="It comes after build or hybrid_quantization_step2.",
                remedy="Call build first.",
            )
        if arguments.get("target") is not None and self._session.on_board:
            self._session.close()  # a board runs one model at a time
            self._log.warning(
                "accuracy_analysis: the board of init_runtime is let go; call init_runtime again."
            )
        text, verdict = analyse_inputs(self._build, self.generation, arguments)
        if text:
            self._log.info("%s", text, extra={"plain": True})
        if verdict:
            self._log.warning("accuracy_analysis: %s", verdict)
        return 0

    @returns_status(-1)
    def codegen(self, *args: Any, **keywords: Any) -> int:
        """Write a C++ project that runs the model on a board, with its golden outputs.

        Generation 2: output_path, inputs=None (paths of jpg, png or npy), overwrite=False. Ours:
        language='cpp' or 'python', task (what the model is), chip, model (the compiled one).
        """
        from engine.api.generate import generate_project

        arguments = bind("codegen", self.generation, args, keywords)
        generate_project(self._build, self._loaded, arguments, self._log, self._reporter)
        return 0

    def list_devices(self) -> tuple[list[str], list[str]]:
        """Serial numbers of the boards in reach: by adb, and by ntb."""
        from engine.api.platforms import list_devices

        return list_devices(self._log)

    def release(self) -> None:
        """Forget the model and close the log file."""
        self._script = Script(self._reporter)
        self._forget_build()
        self._deployment = Deployment(self._log, self._reporter)
        close_log(self._log)
