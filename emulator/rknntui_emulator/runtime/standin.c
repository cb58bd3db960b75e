/* A stand-in for a runtime library of the vendor: it computes nothing, it answers from a file.
 *
 * A model is a file that begins with "RKNN". Its answers are in the file <model>.answers beside it,
 * or <folder>/<SHA-256 of the model>.answers, where the folder is the setting ANSWERS or "answers"
 * beside this library; generation 1 is given the model's bytes, so that it has the second way only.
 * An input that has no answer makes rknn_run return RKNN_ERR_INPUT_INVALID (-8). Where an emulator
 * watches the folder, it is asked for what is not there (ask.c). Settings:
 *   VERSION=2.3.2  the version it says it is       PLATFORM=rk3588  the chip it says it is on
 *   RUN_US=1500    how long a run takes            BEND=NAME[:16]   the layer that the simulator bends
 *   WAIT=50        seconds to wait for what is simulated */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "standin.h"

#if GENERATION == 2
API int rknn_init(rknn_context *handle, void *model, uint32_t size, uint32_t flag, void *extend) {
  (void)extend;
#else
API int rknn_init(rknn_context *handle, void *model, uint32_t size, uint32_t flag) {
  if (!size) return ERR_PARAM_INVALID;
#endif
  if (!handle || !model) return ERR_PARAM_INVALID;
  int code = failing("init");
  if (code) return code;
  struct answers *answers = load(model, size, &code);
  if (!answers) return code;
  *handle = keep(answers, flag);
  if (!*handle) answers_free(answers);
  return *handle ? 0 : ERR_MALLOC_FAIL;
}

#ifdef MINI
/* As librknnmrt 1.3.0b0 to 2.3.2: exported, and of no use. */
API int rknn_dup_context(rknn_context *from, rknn_context *to) {
  (void)from, (void)to;
  fprintf(stderr, "E RKNN: rknn_dup_context not supported in mini runtime!\n");
  return ERR_PARAM_INVALID;
}

API int rknn_inputs_set(rknn_context handle, uint32_t count, rknn_input inputs[]) {
  (void)handle, (void)count, (void)inputs;
  fprintf(stderr, "E RKNN: rknn_inputs_set, context config invalid!\n");
  return ERR_PARAM_INVALID;
}

API int rknn_outputs_get(rknn_context handle, uint32_t count, rknn_output outputs[], void *extend) {
  (void)handle, (void)count, (void)outputs, (void)extend;
  fprintf(stderr, "E RKNN: rknn_outputs_get, context config invalid!\n");
  return ERR_PARAM_INVALID;
}

/* How the real one is known; it is in the text of its version. */
API const char rknn_version_text[] = "librknnmrt version: emulated";
#endif

#if GENERATION == 2
#ifndef MINI
API int rknn_dup_context(rknn_context *from, rknn_context *to) {
  struct context *context = from ? find(*from) : NULL;
  if (!context || !to) return ERR_CTX_INVALID;
  int code = failing("dup_context");
  if (code) return code;
  share(context->answers);
  *to = keep(context->answers, context->flags);
  if (!*to) release(context->answers);
  return *to ? 0 : ERR_MALLOC_FAIL;
}

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
  drop(handle, context);
  return 0;
}

static uint64_t run_time(const struct context *context) {
  char text[SETTING];
  if (setting("RUN_US", text)) return strtoull(text, NULL, 10);
  int cores = 0, most = context->answers->cores;
  for (int mask = context->core_mask & 7; mask; mask >>= 1) cores += mask & 1;
  if (cores > most) cores = most;
  return context->answers->run_us[cores ? cores - 1 : 0];
}

/* The cores that a run is on, a bit for each; the runtime's own choice is one core of a context. */
static int cores_of(const struct context *context) {
  int all = (1 << context->answers->cores) - 1, mask = context->core_mask & all;
  return mask ? mask : 1 << (context->number % context->answers->cores);
}

API int rknn_run(rknn_context handle, void *extend) {
  (void)extend;
  struct context *context = find(handle);
  if (!context) return ERR_CTX_INVALID;
  int code = failing("run");
  if (code) return code;
#if GENERATION == 2
  code = gather(context);
  if (code) return code;
#endif
  code = look_up(context);
  if (code) return code;
  context->run_us = run_time(context);
  be_busy(context->run_us, cores_of(context));
  context->ran = 1;
#if GENERATION == 2
  scatter(context);
#endif
  return 0;
}

#ifndef MINI
API int rknn_inputs_set(rknn_context handle, uint32_t count, rknn_input inputs[]) {
  struct context *context = find(handle);
  if (!context) return ERR_CTX_INVALID;
  int code = failing("inputs_set");
  if (code) return code;
  if (!inputs || count != context->answers->n_input) return ERR_INPUT_INVALID;
  for (uint32_t i = 0; i < count && !code; i++) {
    const rknn_input *input = &inputs[i];
    if (input->index >= count || !input->buf) return ERR_INPUT_INVALID;
    const struct tensor *tensor = &context->answers->inputs[input->index];
    uint32_t bytes = input->pass_through ? tensor->size : tensor->elements * type_bytes(input->type);
    if (!bytes || input->size != bytes) return ERR_INPUT_INVALID;
    struct form form = {input->type, input->fmt, input->pass_through};
    code = put_input(context, input->index, input->buf, input->size, form);
  }
  if (!code) look_up_early(context); /* so that no run takes the time of that */
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

static float from_half(uint16_t half) {
  uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, rest = half & 1023;
  float value;
  if (exponent == 0) {
    value = ldexpf((float)rest, -24);
    return sign ? -value : value;
  }
  uint32_t bits = sign | (exponent == 31 ? 255 : exponent + 112) << 23 | rest << 13;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static int64_t whole(const struct tensor *tensor, const void *source, uint32_t i) {
  static const int is_signed[TYPE_COUNT] = {[TYPE_INT8] = 1, [TYPE_INT16] = 1, [TYPE_INT32] = 1};
  uint64_t value = 0;
  uint32_t bytes = type_bytes(tensor->type), unused = 64 - 8 * bytes;
  memcpy(&value, (const char *)source + (size_t)i * bytes, bytes);
  return is_signed[tensor->type] ? (int64_t)(value << unused) >> unused : (int64_t)value;
}

/* `source` of the tensor's type as floats, dequantized by its parameters. */
static void to_floats(const struct tensor *tensor, const void *source, float *target) {
  for (uint32_t i = 0; i < tensor->elements; i++) {
    if (tensor->type == TYPE_FLOAT32)
      target[i] = ((const float *)source)[i];
    else if (tensor->type == TYPE_FLOAT16)
      target[i] = from_half(((const uint16_t *)source)[i]);
    else if (tensor->quantization == QUANTIZATION_AFFINE)
      target[i] = (float)(whole(tensor, source, i) - tensor->zero_point) * tensor->scale;
    else if (tensor->quantization == QUANTIZATION_DFP)
      target[i] = ldexpf((float)whole(tensor, source, i), -tensor->fl);
    else
      target[i] = (float)whole(tensor, source, i);
  }
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
  int code = failing("outputs_get");
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
