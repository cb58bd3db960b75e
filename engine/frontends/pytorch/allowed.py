"""Which operators of TorchScript are taken, and why others are not.

The list is one of what is allowed, not of what is forbidden: PyTorch runs the model to compare
numbers, and a part of it while it loads (``__setstate__``), and PyTorch has operators that read and
write files (``aten::save``, ``aten::from_file``), call other machines and run Python. What stands
here computes numbers, or is bookkeeping of sizes, lists and texts; much of it has no form in ONNX.
"""

from __future__ import annotations

__all__ = ["BUILTINS", "GRAPH_NODES", "MEMBERS", "NATIVE_CLASSES", "TAKEN", "refusal_of"]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ATEN = _names(
    """
    Bool Complex ComplexImplicit Float FloatImplicit Int IntImplicit ScalarImplicit Size __and__
    __contains__ __derive_index __getitem__ __iand__ __ilshift__ __interpolate __ior__ __irshift__
    __is__ __isnot__ __ixor__ __lshift__ __not__ __or__ __range_length __round_to_zero_floordiv
    __rshift__ __upsample __upsample_bilinear __upsample_nearest __xor__ _adaptive_avg_pool2d
    _adaptive_avg_pool3d _addmm_activation _assert_async _assert_scalar _assert_tensor_metadata
    _batch_norm_no_update _batch_norm_with_update _batch_norm_with_update_functional _cast_Byte
    _cast_Char _cast_Double _cast_Float _cast_Half _cast_Int _cast_Long _cast_Short _cdist_forward
    _conj _convolution _convolution_mode _ctc_loss _dim_arange _embedding_bag
    _embedding_bag_forward_only _euclidean_dist _fake_quantize_learnable_per_channel_affine
    _fake_quantize_learnable_per_tensor_affine
    _fake_quantize_per_tensor_affine_cachemask_tensor_qparams _fft_c2c _fft_c2r _fft_r2c
    _fused_dropout _fused_moving_avg_obs_fq_helper _fused_rms_norm _grad_sum_to_size _infer_size
    _is_all_true _is_any_true _linalg_det _linalg_eigh _linalg_slogdet _linalg_solve_ex _linalg_svd
    _list_to_tensor _log_softmax _make_per_channel_quantized_tensor
    _make_per_tensor_quantized_tensor _masked_scale _masked_softmax _native_batch_norm_legit
    _native_batch_norm_legit_functional _native_batch_norm_legit_no_training
    _native_multi_head_attention _neg_view _nested_tensor_from_mask
    _nested_tensor_from_mask_left_aligned _nested_tensor_size _nnpack_spatial_convolution
    _no_grad_embedding_renorm_ _no_grad_fill_ _no_grad_normal_ _no_grad_uniform_ _no_grad_zero_
    _pack_padded_sequence _pad_packed_sequence _prelu_kernel _reshape_alias _reshape_from_tensor
    _safe_softmax _sample_dirichlet _scaled_dot_product_attention_math
    _scaled_dot_product_efficient_attention _scaled_dot_product_flash_attention_for_cpu _set_item
    _shape_as_tensor _size_if_not_equal _softmax _stack _standard_gamma _tensor_to_list
    _thnn_fused_gru_cell _thnn_fused_lstm_cell _to_copy _to_cpu _transform_bias_rescale_qkv
    _transformer_encoder_layer_fwd _trilinear _unique _unique2 _unpack_dual _unsafe_index
    _unsafe_index_put _unsafe_masked_index _unsafe_masked_index_put_accumulate _unsafe_view
    _unwrap_optional _upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_lanczos2d_aa
    _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d _weight_norm
    _weight_norm_interface abs abs_ absolute absolute_ acos acos_ acosh acosh_ adaptive_avg_pool1d
    adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d
    adaptive_max_pool3d add add_ addbmm addbmm_ addcdiv addcdiv_ addcmul addcmul_ addmm addmm_ addmv
    addmv_ addr addr_ adjoint affine_grid_generator alias alias_copy all allclose alpha_dropout
    alpha_dropout_ amax amin aminmax angle any append arange arccos arccos_ arccosh arccosh_ arcsin
    arcsin_ arcsinh arcsinh_ arctan arctan2 arctan2_ arctan_ arctanh arctanh_ argmax argmin argsort
    argwhere as_strided as_strided_ as_strided_copy as_tensor asin asin_ asinh asinh_ atan atan2
    atan2_ atan_ atanh atanh_ atleast_1d atleast_2d atleast_3d avg_pool1d avg_pool2d avg_pool3d
    baddbmm baddbmm_ bartlett_window batch_norm bernoulli bernoulli_ bilinear binary_cross_entropy
    binary_cross_entropy_with_logits bincount bitwise_and bitwise_and_ bitwise_left_shift
    bitwise_left_shift_ bitwise_not bitwise_not_ bitwise_or bitwise_or_ bitwise_right_shift
    bitwise_right_shift_ bitwise_xor bitwise_xor_ blackman_window block_diag bmm broadcast_shapes
    broadcast_tensors broadcast_to bucketize capitalize cartesian_prod cat cauchy cauchy_ cdist ceil
    ceil_ celu celu_ chain_matmul channel_shuffle cholesky chr chunk clamp clamp_ clamp_max
    clamp_max_ clamp_min clamp_min_ clear clip clip_ clone col2im column_stack combinations complex
    concat concatenate conj conj_physical conj_physical_ constant_pad_nd contiguous conv1d conv2d
    conv3d conv_depthwise3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convolution
    copy copy_ copysign copysign_ corrcoef cos cos_ cosh cosh_ cosine_embedding_loss
    cosine_similarity count count_nonzero cov cpu cross cross_entropy_loss cummax cummin cumprod
    cumprod_ cumsum cumsum_ deg2rad deg2rad_ degrees dequantize det detach detach_ detach_copy
    device diag diag_embed diagflat diagonal diagonal_copy diagonal_scatter dict diff digamma
    digamma_ dim dist div div_ divide divide_ divmod dot dropout dropout_ dsplit dstack einsum
    element_size elu elu_ embedding embedding_bag embedding_renorm embedding_renorm_ empty
    empty_like empty_permuted empty_strided endswith eq eq_ equal erf erf_ erfc erfc_ erfinv erfinv_
    exp exp2 exp2_ exp_ expand expand_as expand_copy expm1 expm1_ exponential exponential_ extend
    eye fabs factorial fake_quantize_per_channel_affine fake_quantize_per_channel_affine_cachemask
    fake_quantize_per_tensor_affine fake_quantize_per_tensor_affine_cachemask feature_alpha_dropout
    feature_alpha_dropout_ feature_dropout feature_dropout_ fft_fft fft_fft2 fft_fftfreq fft_fftn
    fft_fftshift fft_hfft fft_hfft2 fft_hfftn fft_ifft fft_ifft2 fft_ifftn fft_ifftshift fft_ihfft
    fft_ihfft2 fft_ihfftn fft_irfft fft_irfft2 fft_irfftn fft_rfft fft_rfft2 fft_rfftfreq fft_rfftn
    fill fill_ fill_diagonal_ find fix fix_ flatten flip fliplr flipud float_power float_power_
    floor floor_ floor_divide floor_divide_ floordiv fmax fmin fmod fmod_ format frac frac_ frexp
    frobenius_norm full full_like fused_moving_avg_obs_fake_quant gamma gather gcd gcd_ ge ge_ gelu
    gelu_ geometric geometric_ ger get get_autocast_dtype get_device glu greater greater_
    greater_equal greater_equal_ grid_sampler grid_sampler_2d grid_sampler_3d group_norm gru
    gru_cell gt gt_ hamming_window hann_window hardshrink hardsigmoid hardsigmoid_ hardswish
    hardswish_ hardtanh hardtanh_ has_torch_function hash heaviside heaviside_ hex
    hinge_embedding_loss histc hsplit hspmm hstack huber_loss hypot hypot_ i0 i0_ igamma igamma_
    igammac igammac_ im2col imag index index_add index_add_ index_copy index_copy_ index_fill
    index_fill_ index_put index_put_ index_reduce index_reduce_ index_select inner insert
    instance_norm int_repr inverse is_autocast_cpu_enabled is_autocast_enabled is_complex is_conj
    is_contiguous is_floating_point is_grad_enabled is_inference is_leaf is_neg is_nonzero
    is_same_size is_scripting is_signed isalnum isalpha isclose isdecimal isdigit isfinite isin
    isinf islower isnan isneginf isnumeric isposinf isreal isspace istft isupper item items join
    kaiser_window keys kl_div kron kthvalue l1_loss layer_norm lcm lcm_ ldexp ldexp_ le le_
    leaky_relu leaky_relu_ len lerp lerp_ less less_ less_equal less_equal_ lgamma lgamma_ lift
    lift_fresh lift_fresh_copy linalg_cholesky linalg_cond linalg_cross linalg_det linalg_diagonal
    linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh linalg_householder_product linalg_inv
    linalg_inv_ex linalg_lstsq linalg_lu linalg_matmul linalg_matrix_exp linalg_matrix_norm
    linalg_matrix_power linalg_matrix_rank linalg_multi_dot linalg_norm linalg_pinv linalg_qr
    linalg_slogdet linalg_solve linalg_solve_ex linalg_solve_triangular linalg_svd linalg_svdvals
    linalg_tensorinv linalg_tensorsolve linalg_vander linalg_vecdot linalg_vector_norm linear
    linspace list ljust log log10 log10_ log1p log1p_ log2 log2_ log_ log_normal log_normal_
    log_sigmoid log_sigmoid_forward log_softmax logaddexp logaddexp2 logcumsumexp logdet logical_and
    logical_and_ logical_not logical_not_ logical_or logical_or_ logical_xor logical_xor_ logit
    logit_ logspace logsumexp lower lstm lstm_cell lstrip lt lt_ mH mT margin_ranking_loss
    masked_fill masked_fill_ masked_scatter masked_scatter_ masked_select mathremainder matmul
    matrix_H matrix_exp matrix_power max max_pool1d max_pool1d_with_indices max_pool2d
    max_pool2d_with_indices max_pool3d max_pool3d_with_indices max_unpool2d max_unpool3d maximum
    mean median meshgrid min minimum mish mish_ mm modf moveaxis movedim mse_loss msort mul mul_
    multi_margin_loss multilabel_margin_loss multilabel_margin_loss_forward multinomial multiply
    multiply_ mv mvlgamma mvlgamma_ nan_to_num nan_to_num_ nanmean nanmedian nanquantile nansum
    narrow narrow_copy native_batch_norm native_channel_shuffle native_dropout native_group_norm
    native_layer_norm native_norm ne ne_ neg neg_ negative negative_ new_empty new_empty_strided
    new_full new_ones new_zeros nextafter nextafter_ nll_loss nll_loss2d nll_loss2d_forward
    nll_loss_forward nll_loss_nd nonzero nonzero_numpy nonzero_static norm norm_except_dim normal
    normal_ not_equal not_equal_ nuclear_norm numel numpy_T oct one_hot ones ones_like ord outer pad
    pad_sequence pairwise_distance partition pdist percentFormat permute permute_copy pinverse
    pixel_shuffle pixel_unshuffle poisson poisson_nll_loss polar polygamma polygamma_ pop popitem
    positive pow pow_ prelu prod promote_types q_per_channel_axis q_per_channel_scales
    q_per_channel_zero_points q_scale q_zero_point qr qscheme quantile quantize_per_channel
    quantize_per_tensor quantize_per_tensor_dynamic quantized_batch_norm quantized_gru
    quantized_gru_cell quantized_lstm quantized_lstm_cell quantized_max_pool1d quantized_max_pool2d
    quantized_rnn_relu_cell quantized_rnn_tanh_cell rad2deg rad2deg_ radians rand rand_like randint
    randint_like randn randn_like randperm range ravel real reciprocal reciprocal_ reflection_pad1d
    reflection_pad2d reflection_pad3d relu relu6 relu6_ relu_ remainder remainder_ remove renorm
    renorm_ repeat repeat_interleave replace replication_pad1d replication_pad2d replication_pad3d
    requires_grad_ reshape reshape_as resize_as resize_as_ resolve_conj resolve_neg result_type
    reverse rfind rjust rms_norm rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell roll rot90 round
    round_ row_stack rrelu rrelu_ rrelu_with_noise rsplit rsqrt rsqrt_ rstrip rsub scalar_tensor
    scaled_dot_product_attention scatter scatter_ scatter_add scatter_add_ scatter_reduce
    scatter_reduce_ searchsorted select select_copy select_scatter selu selu_ set_grad_enabled
    setdefault sgn sgn_ sigmoid sigmoid_ sign sign_ signbit silu silu_ sin sin_ sinc sinc_ sinh
    sinh_ size slice slice_copy slice_scatter slogdet slow_conv3d slow_conv_dilated2d
    slow_conv_dilated3d slow_conv_transpose2d slow_conv_transpose3d smooth_l1_loss soft_margin_loss
    softmax softplus softshrink sort sorted special_bessel_j0 special_bessel_j1 special_digamma
    special_entr special_erf special_erfc special_erfcx special_erfinv special_exp2 special_expit
    special_expm1 special_gammainc special_gammaincc special_gammaln special_i0 special_i0e
    special_i1 special_i1e special_log1p special_log_ndtr special_log_softmax special_logit
    special_logsumexp special_multigammaln special_ndtr special_ndtri special_polygamma special_psi
    special_round special_sinc special_softmax special_spherical_bessel_j0 special_xlog1py
    special_xlogy special_zeta split split_copy split_with_sizes split_with_sizes_copy splitlines
    sqrt sqrt_ square square_ squeeze squeeze_ squeeze_copy stack startswith std std_mean stft
    storage_offset str stride strip sub sub_ subtract subtract_ sum sum_to_size svd swapaxes
    swapaxes_ swapdims swapdims_ sym_numel t t_ t_copy take take_along_dim tan tan_ tanh tanh_
    tensor tensor_split tensordot thnn_conv2d threshold threshold_ tile title to to_dense topk trace
    transpose transpose_ transpose_copy trapezoid trapz triangular_solve tril tril_ tril_indices
    triplet_margin_loss triu triu_ triu_indices true_divide true_divide_ trunc trunc_ type_as unbind
    unbind_copy unflatten unfold unfold_copy uniform uniform_ unique_consecutive unique_dim
    unique_dim_consecutive unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze unsqueeze_
    unsqueeze_copy update upper upsample_bicubic2d upsample_bilinear2d upsample_linear1d
    upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_trilinear3d values vander var
    var_mean vdot view view_as view_as_complex view_as_complex_copy view_as_real view_as_real_copy
    view_copy vsplit vstack wait warn where xlogy xlogy_ zero zero_ zeros zeros_like
    """
)

_QUANTIZED = _names(
    """
    _wrapped_linear_prepack _wrapped_quantized_linear_prepacked add add_out add_relu add_relu_out
    add_scalar add_scalar_out add_scalar_relu add_scalar_relu_out batch_norm batch_norm1d
    batch_norm1d_relu batch_norm2d batch_norm2d_relu batch_norm3d batch_norm3d_relu batch_norm_relu
    cat cat_out cat_relu cat_relu_out celu clamp conv1d conv1d_dynamic conv1d_prepack conv1d_relu
    conv1d_unpack conv2d conv2d_add conv2d_add_relu conv2d_dilation conv2d_dynamic conv2d_groups
    conv2d_output_padding conv2d_padding conv2d_prepack conv2d_relu conv2d_stride conv2d_transpose
    conv2d_unpack conv2d_unpack_sizes conv3d conv3d_dilation conv3d_dynamic conv3d_groups
    conv3d_output_padding conv3d_padding conv3d_prepack conv3d_relu conv3d_stride conv3d_transpose
    conv3d_unpack conv_prepack conv_transpose1d conv_transpose1d_dynamic conv_transpose1d_prepack
    conv_transpose1d_unpack conv_transpose2d conv_transpose2d_dilation conv_transpose2d_dynamic
    conv_transpose2d_groups conv_transpose2d_output_padding conv_transpose2d_padding
    conv_transpose2d_prepack conv_transpose2d_stride conv_transpose2d_transpose
    conv_transpose2d_unpack conv_transpose3d conv_transpose3d_dilation conv_transpose3d_dynamic
    conv_transpose3d_groups conv_transpose3d_output_padding conv_transpose3d_padding
    conv_transpose3d_prepack conv_transpose3d_stride conv_transpose3d_transpose
    conv_transpose3d_unpack conv_unpack dropout elu embedding_4bit embedding_bag_2bit_prepack
    embedding_bag_2bit_prepack_with_rowwise_min_max embedding_bag_2bit_rowwise_offsets
    embedding_bag_2bit_unpack embedding_bag_4bit embedding_bag_4bit_prepack
    embedding_bag_4bit_prepack_with_rowwise_min_max embedding_bag_4bit_rowwise_offsets
    embedding_bag_4bit_unpack embedding_bag_byte embedding_bag_byte_prepack
    embedding_bag_byte_prepack_with_rowwise_min_max embedding_bag_byte_rowwise_offsets
    embedding_bag_byte_unpack embedding_bag_prepack embedding_bag_unpack embedding_byte group_norm
    hardswish instance_norm int4mm_packed_weight_cpu layer_norm leaky_relu linear linear_dynamic
    linear_dynamic_fp16 linear_dynamic_fp16_unpacked_weight linear_leaky_relu linear_prepack
    linear_prepack_fp16 linear_prepack_fp16_legacy linear_prepack_legacy linear_relu
    linear_relu_dynamic linear_relu_dynamic_fp16 linear_tanh linear_unpack linear_unpack_fp16
    linear_with_input_q_dq_qweight_dq_output_fp32 linear_with_input_q_dq_qweight_dq_relu_output_fp32
    make_quantized_cell_params make_quantized_cell_params_dynamic make_quantized_cell_params_fp16
    matmul max_pool1d max_pool2d mul mul_out mul_relu mul_relu_out mul_scalar mul_scalar_out
    mul_scalar_relu mul_scalar_relu_out prelu quantized_gru_cell_dynamic quantized_lstm_cell_dynamic
    quantized_rnn_relu_cell_dynamic quantized_rnn_tanh_cell_dynamic relu6 sigmoid softmax threshold
    wrapped_fbgemm_linear_fp16_weight wrapped_fbgemm_pack_gemm_matrix_fp16 wrapped_quantized_linear
    """
)

_PRIM = _names(
    """
    EnumName EnumValue IfThenElse ModuleContainerIndex NumToTensor Print RaiseException StringIndex
    TupleIndex TupleUnpack Uninitialized abs data device dtype grad id index is_cpu is_cuda is_ipu
    is_maia is_meta is_mkldnn is_mps is_mtia is_nested is_quantized is_sparse is_sparse_csr
    is_vulkan is_xla is_xpu isinstance itemsize layout max min name nbytes rangelist requires_grad
    tolist type unchecked_cast unchecked_unwrap_optional
    """
)

TAKEN = {"aten": _ATEN, "prim": _PRIM, "quantized": _QUANTIZED, "_quantized": _QUANTIZED}
"""Namespace -> operators of it that a file's code may name."""

_OF_OBJECTS = _names(
    """
    __call__ __getstate__ __setstate__ bias dilation groups output_padding padding stride transpose
    unpack
    """
)

MEMBERS = _ATEN | _PRIM | _OF_OBJECTS
"""What may follow a dot after a value that is no object of the file's own classes."""

BUILTINS = _names(
    """
    AnyEnumType AnyType Any BroadcastingList1 BroadcastingList2 BroadcastingList3 Capsule Device
    Dict Final Future Generator Layout List MemoryFormat NoneType Number NumberType Optional
    QScheme Scalar ScalarType Stream SymInt Tensor Tuple Union abs all annotate any bool complex
    device dict divmod dtype enumerate fork float inf infj int isinstance len list max min nan nanj
    number pow print range rangelist reversed round sorted str sum t tuple unchecked_cast
    uninitialized zip
    """
)
"""Names that a file's code may use besides its own: types, and what TorchScript resolves itself."""

NATIVE_CLASSES = _names(
    """
    quantized.Conv2dPackedParamsBase quantized.Conv3dPackedParamsBase
    quantized.LinearPackedParamsBase quantized.EmbeddingPackedParamsBase rnn.CellParamsBase
    """
)
"""Classes of PyTorch's native code (``torch.classes``) that a file may hold objects of."""

GRAPH_NODES = _names(
    """
    Constant CallFunction CallMethod ChunkSizes ConstantChunk CreateObject DictConstruct Enter Exit
    GetAttr If ListConstruct ListUnpack Loop SetAttr TupleConstruct TupleSlice awaitable_nowait
    fork isinstance unchecked_cast
    """
)
"""Nodes of namespace ``prim`` that a compiled graph has besides the operators of its code."""

_FOREIGN_SPACES = {
    "torchvision": "it belongs to torchvision, whose operators have no ONNX form here: end the "
    "traced module before it",
    "prepacked": "it is made by optimize_for_mobile: save the model before that step",
    "xnnpack": "it is made by optimize_for_mobile: save the model before that step",
    "metal_prepack": "it is made for Apple's GPU: save the model before that step",
    "vulkan_prepack": "it is made for Vulkan: save the model before that step",
    "tensorrt": "it holds an engine of TensorRT: save the model before that step",
}
_OWN_SPACES = (*TAKEN, "prims", "profiler", "mkldnn", "onednn", "c10d", "sparse", "mkl", "inductor")


def refusal_of(op: str, *, graph: bool = False) -> str:
    """Why an operator is refused; empty where it is taken.

    Args:
        op: ``aten::conv2d``.
        graph: whether it is a node of a compiled graph, which has more kinds than code.
    """
    space, _, name = op.partition("::")
    if name in TAKEN.get(space, ()) or (space == "prim" and name in GRAPH_NODES and graph):
        return ""
    if space in _FOREIGN_SPACES:
        return _FOREIGN_SPACES[space]
    if space in _OWN_SPACES:
        return (
            "it is not on the list of operators that only compute; others may read or write files"
        )
    return f"its library {space!r} is not part of PyTorch: end the traced module before it"
