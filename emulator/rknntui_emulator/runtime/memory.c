#include <stdlib.h>
#include <string.h>

#include "standin.h"

#if GENERATION == 2
API rknn_tensor_mem *rknn_create_mem(rknn_context handle, uint32_t size) {
  struct context *context = find(handle);
  if (!context || failing("create_mem")) return NULL;
  rknn_tensor_mem *memory = calloc(1, sizeof *memory);
  void *bytes = calloc(1, size ? size : 1);
  if (!memory || !bytes) {
    free(memory);
    free(bytes);
    return NULL;
  }
  memory->virt_addr = bytes;
  memory->fd = -1;
  memory->size = size;
  return memory;
}

API int rknn_destroy_mem(rknn_context handle, rknn_tensor_mem *memory) {
  struct context *context = find(handle);
  if (!memory) return ERR_PARAM_INVALID;
  for (uint32_t i = 0; context && i < MOST_TENSORS; i++) {
    if (context->in_memory[i] == memory) context->in_memory[i] = NULL;
    if (context->out_memory[i] == memory) context->out_memory[i] = NULL;
  }
  free(memory->virt_addr);
  free(memory);
  return 0;
}

API int rknn_mem_sync(rknn_context handle, rknn_tensor_mem *memory, int mode) {
  return find(handle) ? memory && mode > 0 && mode < 4 ? 0 : ERR_PARAM_INVALID : ERR_CTX_INVALID;
}

API int rknn_set_io_mem(rknn_context handle, rknn_tensor_mem *memory, rknn_tensor_attr *attr) {
  struct context *context = find(handle);
  if (!context) return ERR_CTX_INVALID;
  int code = failing("set_io_mem");
  if (code) return code;
  if (!memory || !attr) return ERR_PARAM_INVALID;
  const struct answers *answers = context->answers;
  uint32_t i = attr->index;
  if (i < answers->n_input && !strcmp(attr->name, answers->inputs[i].name)) {
    context->in_memory[i] = memory;
    context->in_attrs[i] = *attr;
    return 0;
  }
  if (i >= answers->n_output || strcmp(attr->name, answers->outputs[i].name) ||
      memory->size < answers->outputs[i].size || memory->size < attr->size_with_stride)
    return ERR_PARAM_INVALID;
  context->out_memory[i] = memory;
  context->out_attrs[i] = *attr;
  /* so that no run takes the time of a simulation */
  if (answers->simulated && i + 1 == answers->n_output && !gather(context)) look_up_early(context);
  return 0;
}

/* Rows come without the gaps between them. */
int gather(struct context *context) {
  for (uint32_t i = 0; i < context->answers->n_input; i++) {
    const struct tensor *tensor = &context->answers->inputs[i];
    const rknn_tensor_attr *attr = &context->in_attrs[i];
    const rknn_tensor_mem *memory = context->in_memory[i];
    if (!memory) continue;
    uint32_t element = type_bytes(attr->pass_through ? tensor->type : attr->type);
    uint64_t size = (uint64_t)tensor->elements * element, row = size, step = size;
    if (tensor->rank == 4 && tensor->layout == LAYOUT_NHWC && attr->w_stride > tensor->dims[2]) {
      row = (uint64_t)tensor->dims[2] * tensor->dims[3] * element;
      step = row / tensor->dims[2] * attr->w_stride;
    }
    char *bytes = row ? malloc(size) : NULL;
    if (!bytes || memory->size < size / row * step) {
      free(bytes);
      return ERR_INPUT_INVALID;
    }
    for (uint64_t at = 0; at < size / row; at++)
      memcpy(bytes + at * row, (const char *)memory->virt_addr + at * step, row);
    struct form form = {attr->type, attr->fmt, attr->pass_through};
    int code = put_input(context, i, bytes, size, form);
    free(bytes);
    if (code) return code;
  }
  return 0;
}

/* Rows begin where the attributes say, with gaps between them where that is further on. */
void scatter(struct context *context) {
  for (uint32_t i = 0; i < context->answers->n_output; i++) {
    if (!context->out_memory[i]) continue;
    const struct tensor *tensor = &context->answers->outputs[i];
    const rknn_tensor_attr *attr = &context->out_attrs[i];
    char *bytes = context->out_memory[i]->virt_addr;
    fill(context, i, bytes);
    if (tensor->rank != 4 || tensor->layout != LAYOUT_NHWC || attr->w_stride <= tensor->dims[2])
      continue;
    uint64_t rows = (uint64_t)tensor->dims[0] * tensor->dims[1], row = tensor->size / rows;
    uint64_t step = row / tensor->dims[2] * attr->w_stride;
    if (context->out_memory[i]->size < rows * step) continue;
    while (--rows) memmove(bytes + rows * step, bytes + rows * row, row); /* the last one first */
  }
}
#endif
