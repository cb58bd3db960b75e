/* The runtime library of either generation, loaded and called: structures, names and numbers of the
 * vendor's rknn_api.h of generation 2 and of generation 1, and calls. */
#ifndef RKNNTUI_RUNTIME_H
#define RKNNTUI_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#include "noise.h"

#if defined(__arm__)
typedef uint32_t rknn_context;
#else
typedef uint64_t rknn_context;
#endif

enum { MOST_DIMS = 16, MOST_TENSORS = 1024, WORDS = 1024 };

enum {
  QUERY_IN_OUT_NUM,
  QUERY_INPUT_ATTR,
  QUERY_OUTPUT_ATTR,
  QUERY_PERF_DETAIL,
  QUERY_PERF_RUN,
  QUERY_SDK_VERSION,
  QUERY_MEM_SIZE,
  QUERY_CUSTOM_STRING,
  QUERY_NATIVE_INPUT_ATTR,
  QUERY_NATIVE_OUTPUT_ATTR,
  QUERY_NATIVE_NHWC_INPUT_ATTR,
  QUERY_NATIVE_NHWC_OUTPUT_ATTR,
};

enum { FLAG_COLLECT_PERF = 8 };

/* Of generation 2; that of generation 1 ends before w_stride, and its zp is unsigned. */
struct attr {
  uint32_t index, n_dims, dims[MOST_DIMS];
  char name[256];
  uint32_t n_elems, size;
  int32_t fmt, type, qnt_type;
  int8_t fl;
  int32_t zp;
  float scale;
  uint32_t w_stride, size_with_stride;
  uint8_t pass_through;
  uint32_t h_stride;
};

struct counts {
  uint32_t n_input, n_output;
};

struct perf_detail {
  char *perf_data;
  uint64_t data_len;
};

struct perf_run {
  int64_t run_duration;
};

struct sdk_version {
  char api_version[256], drv_version[256];
};

struct mem_size {
  uint32_t total_weight_size, total_internal_size;
  uint64_t total_dma_allocated_size;
  uint32_t total_sram_size, free_sram_size, reserved[10];
};

struct custom_string {
  char string[1024];
};

struct tensor_mem {
  void *virt_addr;
  uint64_t phys_addr;
  int32_t fd, offset;
  uint32_t size, flags;
  void *priv_data;
};

struct input {
  uint32_t index;
  void *buf;
  uint32_t size;
  uint8_t pass_through;
  int32_t type, fmt;
};

struct output {
  uint8_t want_float, is_prealloc;
  uint32_t index;
  void *buf;
  uint32_t size;
};

_Static_assert(sizeof(struct attr) == 376 && offsetof(struct attr, w_stride) == 360, "attr");
_Static_assert(sizeof(struct mem_size) == 64 && sizeof(struct perf_detail) == 16, "queries");
_Static_assert(sizeof(struct tensor_mem) == 40, "tensor_mem");
_Static_assert(sizeof(struct input) == (sizeof(void *) == 8 ? 32 : 24), "input");
_Static_assert(sizeof(struct output) == (sizeof(void *) == 8 ? 24 : 16), "output");

/* What went wrong, in the parts of the program's errors. */
struct failure {
  const char *kind;
  char what[2 * WORDS], cause[2 * WORDS], remedy[WORDS];
};

/* Fill it; returns -1. */
int fail(struct failure *failure, const char *kind, const char *cause, const char *remedy,
         const char *what, ...) __attribute__((format(printf, 5, 6)));

struct library {
  void *handle;
  char path[WORDS];
  int generation;
  int mini; /* librknnmrt of RV1103 and RV1106: memory of the NPU alone, and one thread */
  void *init; /* of four arguments in generation 1, of five in generation 2 */
  int (*dup_context)(rknn_context *, rknn_context *);
  int (*destroy)(rknn_context);
  int (*query)(rknn_context, int, void *, uint32_t);
  int (*inputs_set)(rknn_context, uint32_t, struct input *);
  int (*set_core_mask)(rknn_context, int);
  int (*run)(rknn_context, void *);
  int (*outputs_get)(rknn_context, uint32_t, struct output *, void *);
  int (*outputs_release)(rknn_context, uint32_t, struct output *);
  struct tensor_mem *(*create_mem)(rknn_context, uint32_t);
  int (*destroy_mem)(rknn_context, struct tensor_mem *);
  int (*set_io_mem)(rknn_context, struct tensor_mem *, struct attr *);
  int (*mem_sync)(rknn_context, struct tensor_mem *, int);
};

/* Which call a thread is in, for what is said of a crash; NULL behind it. */
void in_call(const char *name);
#define IN_CALL(name, value)             \
  ({                                     \
    in_call(name);                       \
    __typeof__(value) returned = value;  \
    in_call(NULL);                       \
    returned;                            \
  })
#define CALL(library, name, ...) IN_CALL("rknn_" #name, (library)->name(__VA_ARGS__))

/* A call whose code is an error's: 0, or -1 with the words for it. */
#define CHECKED(library, failure, name, ...)                                          \
  ({                                                                                  \
    uint64_t mark = noise_mark();                                                     \
    check(library, "rknn_" #name, CALL(library, name, __VA_ARGS__), mark, failure);   \
  })

/* Say from now on which call a crash was in, before the process ends by it; before any call. 0 where
 * that cannot be. */
int tell_crashes(void);

extern const char *const RUNTIME; /* the kind of its errors */

/* Names by value, and values by name (-1: none); `number` where the name is not known. */
const char *type_name(int type, char number[16]);
const char *layout_name(int layout, char number[16]);
const char *quantization_name(int quantization, char number[16]);
int type_of(const char *name);
int layout_of(const char *name);
uint32_t type_bytes(int type); /* 0: not known, or packed */

const char *error_name(int code);

/* Load the first of `paths` (NULL at the end) that fits the generation, 0 for either. */
int library_load(struct library *library, const char *const *paths, int generation,
                 struct failure *failure);

/* 0, or -1 with the words for what `call` returned; `mark` is from before it, see noise.h. */
int check(const struct library *library, const char *call, int code, uint64_t mark,
          struct failure *failure);

/* `content` and `size` are the model's bytes, for generation 1. */
int library_init(const struct library *library, const char *model, const void *content,
                 uint32_t size, uint32_t flags, rknn_context *context, struct failure *failure);
int library_query(const struct library *library, rknn_context context, int command, void *info,
                  uint32_t size, struct failure *failure);
/* The attributes of an input (0) or output (1), as they are handed over. */
int library_attr(const struct library *library, rknn_context context, int output, uint32_t index,
                 struct attr *attr, struct failure *failure);

#endif
