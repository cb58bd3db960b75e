/* A context of a stand-in: a model's answers, the inputs that are set, and the last run. */
#ifndef RKNNTUI_CONTEXT_H
#define RKNNTUI_CONTEXT_H

#include <limits.h>

#include "answers.h"
#include "facts.h"
#include "settings.h"

#define API __attribute__((visibility("default")))

/* What the bytes of an input are. */
struct form {
  int type, layout, pass_through;
};

struct context {
  struct answers *answers;
  uint32_t flags;
  int core_mask, ran, number;
  char *inputs[MOST_TENSORS], *perf;
  uint64_t sizes[MOST_TENSORS], run_us;
  struct form forms[MOST_TENSORS];
  /* where results are simulated: the outputs, one behind the other, or why there are none, which the
   * next run says; and how they were bent */
  char *result, *refused, bend[SETTING];
#if GENERATION == 2
  /* memory of the NPU, and how its inputs are to be read */
  rknn_tensor_mem *in_memory[MOST_TENSORS], *out_memory[MOST_TENSORS];
  rknn_tensor_attr in_attrs[MOST_TENSORS];
  rknn_tensor_attr out_attrs[MOST_TENSORS];
#endif
  const struct answer *answer;
};

/* The context of a handle; NULL where it has gone. */
struct context *find(rknn_context handle);
/* A handle for a context of these answers, which it uses from now on; 0 where none is left. */
rknn_context keep(struct answers *answers, uint32_t flags);
/* Free the context of a handle. */
void drop(rknn_context handle, struct context *context);
/* One more user of answers, and one less. */
void share(struct answers *answers);
void release(struct answers *answers);
/* The negative code that a call shall return, as the settings or the answers say; else 0. */
int failing(const struct context *context, const char *call);
/* Copy the bytes of an input. */
int put_input(struct context *context, uint32_t index, const void *bytes, uint64_t size,
              struct form form);
/* Have the answer for the inputs that are set, see answers.py for their digest; else the code of
 * rknn_run, with the reason on the way of errors. */
int look_up(struct context *context);
/* Have a simulated answer made before the run that wants it, which then says what failed. */
void look_up_early(struct context *context);
/* The bytes of an output, bent where that is set; its tensor has room for them at `target`. */
void fill(const struct context *context, uint32_t index, void *target);
/* The folder of answers: the setting ANSWERS, or "answers" beside this library. */
void answers_folder(char folder[PATH_MAX]);
/* The version that the library says it is. */
void version(char text[SETTING]);
/* The answers of a model: its path (size 0) or its bytes; else NULL and the code of rknn_init. */
struct answers *load(const void *model, uint32_t size, int *code);

#if GENERATION == 2
/* Take the inputs out of the memory of the NPU, and put the outputs into it. */
int gather(struct context *context);
void scatter(struct context *context);
#endif

#endif
