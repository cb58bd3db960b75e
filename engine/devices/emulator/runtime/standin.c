/* A stand-in for a runtime library of the vendor: it computes nothing, it answers from a file.
 *
 * A model is a file that begins with "RKNN". Its answers are in the file <model>.answers beside it,
 * or <folder>/<SHA-256 of the model>.answers, where the folder is the setting ANSWERS or "answers"
 * beside this library; generation 1 is given the model's bytes, so that it has the second way only.
 * An input that has no answer makes rknn_run return RKNN_ERR_INPUT_INVALID (-8). Settings:
 *   VERSION=2.3.2  the version it says it is       PLATFORM=rk3588  the chip it says it is on
 *   RUN_US=1500    how long a run takes            BEND=3[:16]      outputs of layer 3 and later bend
 *   HANG=run  CRASH=run  FAIL=run:-2[:3]           what a call does, FAIL from its third time on */
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "answers.h"
#include "convert.h"
#include "facts.h"
#include "perf_text.h"
#include "settings.h"

#ifndef VERSION
#define VERSION "2.3.2"
#endif
#if GENERATION == 1
#define NAME "librknn_runtime"
#elif defined(MINI)
#define NAME "librknnmrt"
#else
#define NAME "librknnrt"
#endif

#define API __attribute__((visibility("default")))

/* found by those who look into the file for its version */
API const char rknntui_emulated_version[] =
    NAME " version: " VERSION " (emulated by rknntui@2026-01-01T00:00:00)";

enum { MOST_CONTEXTS = 64, BEND_STRENGTH = 16 };

struct context {
  struct answers *answers;
  uint32_t flags;
  int core_mask, ran;
  char *inputs[MOST_TENSORS], *perf;
  uint64_t sizes[MOST_TENSORS], run_us;
  const struct answer *answer;
};

static struct context *contexts[MOST_CONTEXTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const rknn_context TAG = 0x5a000000;

static void version(char text[SETTING]) {
  if (!setting("VERSION", text)) strcpy(text, VERSION);
}

static struct context *find(rknn_context handle) {
  rknn_context index = handle - TAG - 1;
  pthread_mutex_lock(&lock);
  struct context *context = index < MOST_CONTEXTS ? contexts[index] : NULL;
  pthread_mutex_unlock(&lock);
  return context;
}

/* A handle for a context of these answers, which it uses from now on; 0 where none is left. */
static rknn_context keep(struct answers *answers, uint32_t flags) {
  struct context *context = calloc(1, sizeof *context);
  rknn_context handle = 0;
  if (!context) return 0;
  context->answers = answers;
  context->flags = flags;
  pthread_mutex_lock(&lock);
  for (uint32_t i = 0; i < MOST_CONTEXTS && !handle; i++)
    if (!contexts[i]) {
      contexts[i] = context;
      handle = TAG + i + 1;
    }
  pthread_mutex_unlock(&lock);
  if (!handle) free(context);
  return handle;
}

static void release(struct answers *answers) {
  pthread_mutex_lock(&lock);
  int left = --answers->users;
  pthread_mutex_unlock(&lock);
  if (!left) answers_free(answers);
}

static int older(const char *version, const char *other) {
  int a[3] = {0}, b[3] = {0};
  sscanf(version, "%d.%d.%d", a, a + 1, a + 2);
  sscanf(other, "%d.%d.%d", b, b + 1, b + 2);
  for (int i = 0; i < 3; i++)
    if (a[i] != b[i]) return a[i] < b[i];
  return 0;
}

static struct answers *by_digest(const char *digest, const char **why) {
  char folder[SETTING], path[PATH_MAX];
  if (!setting("ANSWERS", folder)) {
    own_folder(folder, sizeof folder - 16);
    strcat(folder, "/answers");
  }
  *why = "the path of the folder of answers is too long";
  if (snprintf(path, sizeof path, "%s/%s.answers", folder, digest) >= (int)sizeof path) return NULL;
  return answers_read(path, why);
}

static int digest_file(const char *path, char digest[SHA256_HEX], char magic[4]) {
  struct sha256 hash;
  char block[1 << 16];
  size_t size, whole = 0;
  FILE *file = fopen(path, "rb");
  if (!file) return 0;
  sha256_begin(&hash);
  while ((size = fread(block, 1, sizeof block, file))) {
    if (!whole) memcpy(magic, block, size < 4 ? size : 4);
    sha256_add(&hash, block, size);
    whole += size;
  }
  fclose(file);
  sha256_end(&hash, digest);
  return 1;
}

/* A path that a program of an emulated board has, where the board's files are on this machine. */
static const char *led(const char *path, char room[PATH_MAX]) {
  const char *root = getenv("BOARD_ROOT");
  size_t length = root ? strlen(root) : 0;
  if (!length || *path != '/' || (!strncmp(path, root, length) && path[length] == '/')) return path;
  return snprintf(room, PATH_MAX, "%s%s", root, path) < PATH_MAX ? room : path;
}

/* The answers of a model, or the code of rknn_init in `code`. */
static struct answers *load(const void *model, uint32_t size, int *code) {
  char digest[SHA256_HEX], magic[4] = {0}, path[PATH_MAX], room[PATH_MAX], text[SETTING];
  const char *why = "";
  struct answers *answers = NULL;
  *code = ERR_MODEL_INVALID;
  if (!size) model = led(model, room);
  if (size) {
    struct sha256 hash;
    sha256_begin(&hash);
    sha256_add(&hash, model, size);
    sha256_end(&hash, digest);
    memcpy(magic, model, size < 4 ? size : 4);
  } else if (!digest_file(model, digest, magic)) {
    fprintf(stderr, "E RKNN: emulated: the model cannot be opened\n");
    *code = ERR_FAIL;
    return NULL;
  }
  if (memcmp(magic, "RKNN", 4)) {
    fprintf(stderr, "E RKNN: parseRKNN: invalid RKNN_MAGIC!\n");
    return NULL;
  }
  if (!size && snprintf(path, sizeof path, "%s.answers", (const char *)model) < (int)sizeof path)
    answers = answers_read(path, &why);
  if (!answers) answers = by_digest(digest, &why);
  if (!answers) {
    fprintf(stderr, "E RKNN: emulated: no answers for this model: %s\n", why);
    return NULL;
  }
  *code = 0;
  if (answers->generation != GENERATION) {
    fprintf(stderr, "E RKNN: parseRKNN: invalid RKNN_MAGIC!\n");
    *code = ERR_MODEL_INVALID;
  } else if (version(text), *answers->needs && older(text, answers->needs)) {
    fprintf(stderr, "E RKNN: 6, 1\nE RKNN: Invalid RKNN model version 6\n");
    *code = ERR_FAIL;
  } else if (*answers->platform && setting("PLATFORM", text) && strcmp(text, answers->platform)) {
    fprintf(stderr, "E RKNN: the model's target platform %s is not %s\n", answers->platform, text);
    *code = ERR_TARGET_PLATFORM_UNMATCH;
  }
  if (*code) {
    answers_free(answers);
    return NULL;
  }
  return answers;
}

static int failing(const struct context *context, const char *call) {
  int code = fault(call);
  if (!code && !strcmp(context->answers->fail_call, call)) {
    fprintf(stderr, "E RKNN: emulated: rknn_%s fails\n", call);
    code = context->answers->fail_code;
  }
  return code;
}

#if GENERATION == 2
API int rknn_init(rknn_context *handle, void *model, uint32_t size, uint32_t flag, void *extend) {
  (void)extend;
#else
API int rknn_init(rknn_context *handle, void *model, uint32_t size, uint32_t flag) {
  if (!size) return ERR_PARAM_INVALID;
#endif
  if (!handle || !model) return ERR_PARAM_INVALID;
  int code = fault("init");
  if (code) return code;
  struct answers *answers = load(model, size, &code);
  if (!answers) return code;
  if (!strcmp(answers->fail_call, "init")) {
    code = answers->fail_code;
    fprintf(stderr, "E RKNN: emulated: rknn_init fails\n");
    answers_free(answers);
    return code;
  }
  *handle = keep(answers, flag);
  if (!*handle) answers_free(answers);
  return *handle ? 0 : ERR_MALLOC_FAIL;
}

#if GENERATION == 2
API int rknn_dup_context(rknn_context *from, rknn_context *to) {
  struct context *context = from ? find(*from) : NULL;
  if (!context || !to) return ERR_CTX_INVALID;
  int code = failing(context, "dup_context");
  if (code) return code;
  pthread_mutex_lock(&lock);
  context->answers->users++;
  pthread_mutex_unlock(&lock);
  *to = keep(context->answers, context->flags);
  if (!*to) release(context->answers);
  return *to ? 0 : ERR_MALLOC_FAIL;
}

#ifndef MINI
API int rknn_set_core_mask(rknn_context handle, int mask) {
  struct context *context = find(handle);
  if (!context) return ERR_CTX_INVALID;
  if (context->answers->cores < 2 || mask < 0 || (mask > 7 && mask != 0xffff))
    return ERR_PARAM_INVALID;
  context->core_mask = mask;
  return 0;
}
#endif
#endif

API int rknn_destroy(rknn_context handle) {
  struct context *context = find(handle);
  if (!context) return ERR_CTX_INVALID;
  pthread_mutex_lock(&lock);
  contexts[handle - TAG - 1] = NULL;
  pthread_mutex_unlock(&lock);
  for (uint32_t i = 0; i < MOST_TENSORS; i++) free(context->inputs[i]);
  free(context->perf);
  release(context->answers);
  free(context);
  return 0;
}

static int attributes(const struct context *context, int output, rknn_tensor_attr *attr) {
  const struct answers *answers = context->answers;
  uint32_t index = attr->index, count = output ? answers->n_output : answers->n_input;
  if (index >= count) return ERR_PARAM_INVALID;
  const struct tensor *tensor = output ? &answers->outputs[index] : &answers->inputs[index];
  memset(attr, 0, sizeof *attr);
  attr->index = index;
  attr->n_dims = tensor->rank;
  for (uint32_t i = 0; i < tensor->rank; i++)
    attr->dims[i] = tensor->dims[GENERATION == 1 ? tensor->rank - 1 - i : i];
  strcpy(attr->name, tensor->name);
  attr->n_elems = tensor->elements;
  attr->size = tensor->size;
  attr->fmt = tensor->layout;
  attr->type = tensor->type;
  attr->qnt_type = tensor->quantization;
  attr->fl = (int8_t)tensor->fl;
  attr->zp = tensor->zero_point;
  attr->scale = tensor->scale;
#if GENERATION == 2
  attr->size_with_stride = tensor->size;
  if (tensor->rank == 4 && tensor->layout <= LAYOUT_NHWC)
    attr->w_stride = tensor->dims[tensor->layout == LAYOUT_NHWC ? 2 : 3];
#endif
  return 0;
}

static int versions(rknn_sdk_version *info) {
  char text[SETTING];
  version(text);
  memset(info, 0, sizeof *info);
  snprintf(info->api_version, sizeof info->api_version, "%.32s (emulated by rknntui)", text);
  snprintf(info->drv_version, sizeof info->drv_version, "%.32s (emulated)",
           GENERATION == 1 ? text : "0.9.8");
  return 0;
}

#ifndef MINI
static int perf_detail(struct context *context, rknn_perf_detail *info) {
  char text[SETTING];
  if (!context->ran || !(context->flags & FLAG_COLLECT_PERF_MASK)) return ERR_PARAM_INVALID;
  version(text);
  free(context->perf);
  context->perf = perf_text(context->answers, text, context->run_us);
  if (!context->perf) return ERR_MALLOC_FAIL;
  info->perf_data = context->perf;
  info->data_len = strlen(context->perf);
  return 0;
}
#endif

#define IS(type) (size == sizeof(type))

API int rknn_query(rknn_context handle, int command, void *info, uint32_t size) {
  struct context *context = find(handle);
  if (!context) return ERR_CTX_INVALID;
  if (!info) return ERR_PARAM_INVALID;
  int code = failing(context, "query");
  if (code) return code;
  const struct answers *a = context->answers;
  if (command == QUERY_IN_OUT_NUM && IS(rknn_input_output_num)) {
    *(rknn_input_output_num *)info = (rknn_input_output_num){a->n_input, a->n_output};
    return 0;
  }
  if ((command == QUERY_INPUT_ATTR || command == QUERY_OUTPUT_ATTR) && IS(rknn_tensor_attr))
    return attributes(context, command == QUERY_OUTPUT_ATTR, info);
  if (command == QUERY_SDK_VERSION && IS(rknn_sdk_version)) return versions(info);
#ifndef MINI
  if (command == QUERY_PERF_RUN && IS(rknn_perf_run)) {
    if (!context->ran) return ERR_PARAM_INVALID;
    ((rknn_perf_run *)info)->run_duration = (int64_t)context->run_us;
    return 0;
  }
  if (command == QUERY_PERF_DETAIL && IS(rknn_perf_detail)) return perf_detail(context, info);
#endif
#if GENERATION == 2
  if (command == QUERY_MEM_SIZE && IS(rknn_mem_size)) {
    rknn_mem_size *memory = info;
    memset(memory, 0, sizeof *memory);
    memory->total_weight_size = (uint32_t)a->weight;
    memory->total_internal_size = (uint32_t)a->internal;
    memory->total_dma_allocated_size = a->dma;
    memory->total_sram_size = (uint32_t)a->sram;
    memory->free_sram_size = (uint32_t)a->sram_free;
    return 0;
  }
  if (command == QUERY_CUSTOM_STRING && IS(rknn_custom_string)) {
    strcpy(((rknn_custom_string *)info)->string, a->custom);
    return 0;
  }
  if ((command == QUERY_NATIVE_INPUT_ATTR || command == QUERY_NATIVE_NHWC_INPUT_ATTR) &&
      IS(rknn_tensor_attr))
    return attributes(context, 0, info);
  if ((command == QUERY_NATIVE_OUTPUT_ATTR || command == QUERY_NATIVE_NHWC_OUTPUT_ATTR) &&
      IS(rknn_tensor_attr))
    return attributes(context, 1, info);
#endif
  return ERR_PARAM_INVALID;
}

/* The answer for the inputs that are set; see answers.py for their digest. */
static const struct answer *look_up(const struct context *context) {
  const struct answers *answers = context->answers;
  char digest[SHA256_HEX];
  struct sha256 hash;
  sha256_begin(&hash);
  for (uint32_t i = 0; i < answers->n_input; i++) {
    uint8_t length[8];
    for (int b = 0; b < 8; b++) length[b] = (uint8_t)(context->sizes[i] >> (8 * b));
    sha256_add(&hash, length, sizeof length);
    sha256_add(&hash, context->inputs[i], context->sizes[i]);
  }
  sha256_end(&hash, digest);
  for (uint32_t i = 0; i < answers->n_answer; i++)
    if (!strcmp(answers->answers[i].digest, digest)) return &answers->answers[i];
  for (uint32_t i = 0; i < answers->n_answer; i++)
    if (!strcmp(answers->answers[i].digest, "*")) return &answers->answers[i];
  return NULL;
}

static uint64_t run_time(const struct context *context) {
  char text[SETTING];
  if (setting("RUN_US", text)) return strtoull(text, NULL, 10);
  int cores = 0, most = context->answers->cores;
  for (int mask = context->core_mask & 7; mask; mask >>= 1) cores += mask & 1;
  if (cores > most) cores = most;
  return context->answers->run_us[cores ? cores - 1 : 0];
}

API int rknn_run(rknn_context handle, void *extend) {
  (void)extend;
  struct context *context = find(handle);
  if (!context) return ERR_CTX_INVALID;
  int code = failing(context, "run");
  if (code) return code;
  for (uint32_t i = 0; i < context->answers->n_input; i++)
    if (!context->inputs[i]) return ERR_INPUT_INVALID;
  context->answer = look_up(context);
  if (!context->answer) {
    fprintf(stderr, "E RKNN: emulated: no answer was made for this input\n");
    return ERR_INPUT_INVALID;
  }
  context->run_us = run_time(context);
  struct timespec left = {(time_t)(context->run_us / 1000000),
                          (long)(context->run_us % 1000000) * 1000};
  while (nanosleep(&left, &left)) {
  }
  context->ran = 1;
  return 0;
}

/* The bytes of an output, bent where that is set; its tensor has room for them at `target`. */
static void fill(const struct context *context, uint32_t index, void *target) {
  const struct answers *answers = context->answers;
  const struct tensor *tensor = &answers->outputs[index];
  const char *source = answers->data + context->answer->offset;
  char text[SETTING];
  int layer, strength = BEND_STRENGTH;
  for (uint32_t i = 0; i < index; i++) source += answers->outputs[i].size;
  memcpy(target, source, tensor->size);
  if (setting("BEND", text) && sscanf(text, "%d:%d", &layer, &strength) >= 1 &&
      tensor->layer >= layer)
    bend(tensor, target, strength);
}

#ifndef MINI
static int put_input(struct context *context, uint32_t index, const void *bytes, uint64_t size) {
  char *copy = malloc(size ? size : 1);
  if (!copy) return ERR_MALLOC_FAIL;
  memcpy(copy, bytes, size);
  free(context->inputs[index]);
  context->inputs[index] = copy;
  context->sizes[index] = size;
  return 0;
}

API int rknn_inputs_set(rknn_context handle, uint32_t count, rknn_input inputs[]) {
  struct context *context = find(handle);
  if (!context) return ERR_CTX_INVALID;
  int code = failing(context, "inputs_set");
  if (code) return code;
  if (!inputs || count != context->answers->n_input) return ERR_INPUT_INVALID;
  for (uint32_t i = 0; i < count && !code; i++) {
    const rknn_input *input = &inputs[i];
    if (input->index >= count || !input->buf) return ERR_INPUT_INVALID;
    const struct tensor *tensor = &context->answers->inputs[input->index];
    uint32_t bytes = input->pass_through ? tensor->size : tensor->elements * type_bytes(input->type);
    if (!bytes || input->size != bytes) return ERR_INPUT_INVALID;
    code = put_input(context, input->index, input->buf, input->size);
  }
  return code;
}

API int rknn_outputs_release(rknn_context handle, uint32_t count, rknn_output outputs[]) {
  if (!find(handle)) return ERR_CTX_INVALID;
  for (uint32_t i = 0; outputs && i < count; i++)
    if (!outputs[i].is_prealloc) {
      free(outputs[i].buf);
      outputs[i].buf = NULL;
    }
  return 0;
}

static int get_output(const struct context *context, rknn_output *output) {
  const struct tensor *tensor = &context->answers->outputs[output->index];
  uint32_t size = output->want_float ? tensor->elements * 4 : tensor->size;
  void *native = malloc(tensor->size);
  void *target = output->is_prealloc ? output->buf : malloc(size);
  if (!native || !target || (output->is_prealloc && output->size < size)) {
    free(native);
    if (!output->is_prealloc) free(target);
    return native && target ? ERR_OUTPUT_INVALID : ERR_MALLOC_FAIL;
  }
  fill(context, output->index, native);
  if (output->want_float)
    to_floats(tensor, native, target);
  else
    memcpy(target, native, size);
  free(native);
  output->buf = target;
  output->size = size;
  return 0;
}

API int rknn_outputs_get(rknn_context handle, uint32_t count, rknn_output outputs[], void *extend) {
  (void)extend;
  struct context *context = find(handle);
  if (!context) return ERR_CTX_INVALID;
  int code = failing(context, "outputs_get");
  if (code) return code;
  if (!context->ran || !outputs || count != context->answers->n_output) return ERR_OUTPUT_INVALID;
  for (uint32_t i = 0; i < count; i++)
    if (outputs[i].index >= count) return ERR_OUTPUT_INVALID;
  for (uint32_t i = 0; i < count; i++)
    if ((code = get_output(context, &outputs[i]))) {
      rknn_outputs_release(handle, i, outputs);
      return code;
    }
  return 0;
}
#endif
