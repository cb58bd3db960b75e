#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "standin.h"

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

/* found by those who look into the file for its version */
API const char rknntui_emulated_version[] =
    NAME " version: " VERSION " (emulated by rknntui@2026-01-01T00:00:00)";

#ifdef MINI
enum { ALIGN = 16 };
#endif

void version(char text[SETTING]) {
  if (!setting("VERSION", text)) strcpy(text, VERSION);
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
#ifdef MINI /* rows of images begin at multiples of some pixels */
  if (tensor->rank == 4 && tensor->layout == LAYOUT_NHWC) {
    attr->w_stride = (tensor->dims[2] + ALIGN - 1) / ALIGN * ALIGN;
    attr->size_with_stride = tensor->size / tensor->dims[2] * attr->w_stride;
  }
#endif
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
  if (!context->ran || !(context->flags & FLAG_COLLECT_PERF_MASK)) return ERR_PARAM_INVALID;
  free(context->perf);
  context->perf = perf_text(context->answers, context->run_us);
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
  int code = failing("query");
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
  if (command >= QUERY_NATIVE_INPUT_ATTR && command <= QUERY_NATIVE_NHWC_OUTPUT_ATTR &&
      IS(rknn_tensor_attr))
    return attributes(context, command % 2, info); /* those of outputs are odd */
#endif
  return ERR_PARAM_INVALID;
}
