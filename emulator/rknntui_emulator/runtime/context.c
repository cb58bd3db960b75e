#include "standin.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CONTEXTS = 64 };

static struct context *contexts[MOST_CONTEXTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const rknn_context TAG = 0x5a000000;

struct context *find(rknn_context handle) {
  rknn_context index = handle - TAG - 1;
  pthread_mutex_lock(&lock);
  struct context *context = index < MOST_CONTEXTS ? contexts[index] : NULL;
  pthread_mutex_unlock(&lock);
  return context;
}

rknn_context keep(struct answers *answers, uint32_t flags) {
  struct context *context = calloc(1, sizeof *context);
  rknn_context handle = 0;
  if (!context) return 0;
  context->answers = answers;
  context->flags = flags;
  pthread_mutex_lock(&lock);
  for (uint32_t i = 0; i < MOST_CONTEXTS && !handle; i++)
    if (!contexts[i]) {
      contexts[i] = context;
      context->number = (int)i;
      handle = TAG + i + 1;
    }
  pthread_mutex_unlock(&lock);
  if (!handle) free(context);
  return handle;
}

void release(struct answers *answers) {
  if (!__atomic_sub_fetch(&answers->users, 1, __ATOMIC_ACQ_REL)) answers_free(answers);
}

void share(struct answers *answers) {
  __atomic_add_fetch(&answers->users, 1, __ATOMIC_RELAXED);
}

void drop(rknn_context handle, struct context *context) {
  pthread_mutex_lock(&lock);
  contexts[handle - TAG - 1] = NULL;
  pthread_mutex_unlock(&lock);
  for (uint32_t i = 0; i < MOST_TENSORS; i++) free(context->inputs[i]);
  free(context->perf);
  free(context->result);
  free(context->refused);
  release(context->answers);
  free(context);
}

static void forget(struct context *context) {
  free(context->result);
  free(context->refused);
  context->result = context->refused = NULL;
  context->answer = NULL;
}

int put_input(struct context *context, uint32_t index, const void *bytes, uint64_t size,
              struct form form) {
  const char *before = context->inputs[index];
  if (before && context->sizes[index] == size &&
      !memcmp(&context->forms[index], &form, sizeof form) && !memcmp(before, bytes, size))
    return 0;
  char *copy = malloc(size ? size : 1);
  if (!copy) return ERR_MALLOC_FAIL;
  forget(context);
  memcpy(copy, bytes, size);
  free(context->inputs[index]);
  context->inputs[index] = copy;
  context->sizes[index] = size;
  context->forms[index] = form;
  return 0;
}

void fill(const struct context *context, uint32_t index, void *target) {
  const struct answers *answers = context->answers;
  const char *source = context->result;
  if (!source) source = answers->data + context->answer->offset;
  for (uint32_t i = 0; i < index; i++) source += answers->outputs[i].size;
  memcpy(target, source, answers->outputs[index].size);
}
