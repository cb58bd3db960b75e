/* The C interface of the NPU's runtime libraries as far as the stand-ins answer it.
 *
 * Written from facts about the published headers (sizes, offsets, values and prototypes; see
 * tests/devices/agent/abi.json for the sources), not copied from them. GENERATION is 1 (toolkit 1:
 * librknn_runtime.so) or 2 (rknpu2: librknnrt.so). */
#ifndef RKNNTUI_FACTS_H
#define RKNNTUI_FACTS_H

#include <stddef.h>
#include <stdint.h>

#if !defined(GENERATION) || (GENERATION != 1 && GENERATION != 2)
#error "GENERATION has to be 1 or 2"
#endif

#if defined(__arm__)
typedef uint32_t rknn_context;
#else
typedef uint64_t rknn_context;
#endif

enum { MAX_DIMS = 16, MAX_NAME = 256 };

enum {
  QUERY_IN_OUT_NUM, QUERY_INPUT_ATTR, QUERY_OUTPUT_ATTR, QUERY_PERF_DETAIL, QUERY_PERF_RUN,
  QUERY_SDK_VERSION, QUERY_MEM_SIZE /* generation 1: PRE_COMPILE */, QUERY_CUSTOM_STRING,
  QUERY_NATIVE_INPUT_ATTR, QUERY_NATIVE_OUTPUT_ATTR, QUERY_NATIVE_NHWC_INPUT_ATTR,
  QUERY_NATIVE_NHWC_OUTPUT_ATTR,
};

enum {
  ERR_FAIL = -1,
  ERR_MALLOC_FAIL = -4,
  ERR_PARAM_INVALID = -5,
  ERR_MODEL_INVALID = -6,
  ERR_CTX_INVALID = -7,
  ERR_INPUT_INVALID = -8,
  ERR_OUTPUT_INVALID = -9,
  ERR_TARGET_PLATFORM_UNMATCH = -13,
};

enum { FLAG_COLLECT_PERF_MASK = 8 };

enum {
  TYPE_FLOAT32, TYPE_FLOAT16, TYPE_INT8, TYPE_UINT8, TYPE_INT16, TYPE_UINT16, TYPE_INT32,
  TYPE_UINT32, TYPE_INT64, TYPE_BOOL, TYPE_COUNT,
};

enum { LAYOUT_NCHW, LAYOUT_NHWC, LAYOUT_NC1HWC2, LAYOUT_UNDEFINED };
enum { QUANTIZATION_NONE, QUANTIZATION_DFP, QUANTIZATION_AFFINE };

typedef struct {
  uint32_t n_input, n_output;
} rknn_input_output_num;

typedef struct {
  uint32_t index, n_dims, dims[MAX_DIMS];
  char name[MAX_NAME];
  uint32_t n_elems, size;
  int32_t fmt, type, qnt_type;
  int8_t fl;
#if GENERATION == 1
  uint32_t zp;
  float scale;
#else
  int32_t zp;
  float scale;
  uint32_t w_stride, size_with_stride;
  uint8_t pass_through;
  uint32_t h_stride;
#endif
} rknn_tensor_attr;

typedef struct {
  char *perf_data;
  uint64_t data_len;
} rknn_perf_detail;

typedef struct {
  int64_t run_duration;
} rknn_perf_run;

typedef struct {
  char api_version[256], drv_version[256];
} rknn_sdk_version;

typedef struct {
  uint32_t total_weight_size, total_internal_size;
  uint64_t total_dma_allocated_size;
  uint32_t total_sram_size, free_sram_size, reserved[10];
} rknn_mem_size;

typedef struct {
  char string[1024];
} rknn_custom_string;

#if GENERATION == 2 /* laid out otherwise in generation 1, whose calls that take it are not here */
typedef struct {
  void *virt_addr;
  uint64_t phys_addr;
  int32_t fd, offset;
  uint32_t size, flags;
  void *priv_data;
} rknn_tensor_mem;
#endif

typedef struct {
  uint32_t index;
  void *buf;
  uint32_t size;
  uint8_t pass_through;
  int32_t type, fmt;
} rknn_input;

typedef struct {
  uint8_t want_float, is_prealloc;
  uint32_t index;
  void *buf;
  uint32_t size;
} rknn_output;

#endif
