/* Runs of an open model: on one thread or several, each with a context of its own. */
#ifndef RKNNTUI_RUN_H
#define RKNNTUI_RUN_H

#include "runtime.h"

enum { MOST_THREADS = 32 };

/* An open model. */
struct model {
  struct library library;
  char path[4096];
  void *content; /* generation 1 */
  uint32_t size, flags;
  int core_mask; /* -1: not chosen */
  uint32_t n_input, n_output;
  struct attr *inputs, *outputs;
  rknn_context contexts[MOST_THREADS];
  int n_context;
  /* Since the first context was made: whether its memory was asked for, and memory bound to it. */
  int told_memory, bound;
};

struct given {
  char *content;
  uint32_t size;
  int type, layout, pass_through;
};

/* What is asked of runs, and what they bring. */
struct runs {
  const struct given *inputs;
  int64_t warmup, loops;
  int threads, want_outputs, want_float, want_perf;
  volatile int *cancelled;
  /* called now and then, and after the last run, with the number of runs that have ended */
  void (*tell)(void *whom, const struct runs *runs, int64_t done);
  void *whom;
  int64_t *wall_us, *run_us; /* in the order of their ends */
  int64_t done, told_times, elapsed_us;
  char **outputs; /* of the last run of the first thread */
  uint32_t *sizes;
  char *perf;
};

/* 0; or -1 with the reason. `runs_free` is called in either case. */
int runs_work(struct model *model, struct runs *runs, struct failure *failure);
void runs_free(const struct model *model, struct runs *runs);

/* The time of a clock that never goes back. */
int64_t now_us(void);

/* Choose the cores; 0, or the code of the library, or 1 where it has no choice. */
int choose_cores(const struct model *model, rknn_context context);

#endif
