#define _GNU_SOURCE
#include "run.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FROM_DEVICE = 2, TELL_MS = 100, PERF_LIMIT = 16 << 20 };

struct team {
  struct model *model;
  struct runs *runs;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int warm, ended, failed, stop;
  int64_t begun, finished;
  struct failure failure;
};

struct lane {
  struct team *team;
  int number;
  rknn_context context;
  pthread_t thread;
  struct tensor_mem **in, **out; /* of libraries that do not copy */
};

int64_t now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int choose_cores(const struct model *model, rknn_context context) {
  if (model->core_mask < 0) return 0;
  if (!model->library.set_core_mask) return 1;
  return CALL(&model->library, set_core_mask, context, model->core_mask);
}

/* Bytes of a row of an image, and from one row to the next; one row where it is none. */
static void rows(const struct attr *attr, uint32_t element, uint64_t size, uint64_t *row,
                 uint64_t *step) {
  *row = *step = size;
  if (attr->n_dims != 4 || attr->fmt != 1 || !element) return;
  uint64_t pixel = (uint64_t)attr->dims[3] * element;
  *row = attr->dims[2] * pixel;
  *step = (attr->w_stride > attr->dims[2] ? attr->w_stride : attr->dims[2]) * pixel;
}

static struct tensor_mem *new_memory(struct lane *lane, uint64_t size, struct failure *failure) {
  struct tensor_mem *memory =
      size <= UINT32_MAX && lane->team->model->library.create_mem
          ? CALL(&lane->team->model->library, create_mem, lane->context, (uint32_t)size)
          : NULL;
  if (!memory || !memory->virt_addr)
    fail(failure, RUNTIME, "The board has not enough of it.",
         "End other programs, or enlarge the memory that is reserved for the NPU.",
         "rknn_create_mem could not get %llu bytes for the NPU.", (unsigned long long)size);
  return memory;
}

static int set_memory(struct lane *lane, struct tensor_mem *memory, struct attr *attr,
                      struct failure *failure) {
  return CHECKED(&lane->team->model->library, failure, set_io_mem, lane->context, memory, attr);
}

static int set_without_copies(struct lane *lane, struct failure *failure) {
  const struct model *model = lane->team->model;
  lane->in = calloc(model->n_input + 1, sizeof *lane->in);
  lane->out = calloc(model->n_output + 1, sizeof *lane->out);
  if (!lane->in || !lane->out || !model->library.set_io_mem)
    return fail(failure, RUNTIME, "It is too old.", "", "%s has no function rknn_set_io_mem.",
                model->library.path);
  for (uint32_t i = 0; i < model->n_input; i++) {
    const struct given *one = &lane->team->runs->inputs[i];
    struct attr attr = model->inputs[i];
    uint64_t row = one->size, step = one->size;
    if (one->pass_through) {
      attr.pass_through = 1;
    } else {
      rows(&attr, type_bytes(one->type), one->size, &row, &step);
      attr.pass_through = 0;
      attr.type = one->type;
      attr.fmt = one->layout;
    }
    uint64_t count = row ? one->size / row : 0, size = count * step;
    if (size < attr.size_with_stride) size = attr.size_with_stride;
    struct tensor_mem *memory = lane->in[i] = new_memory(lane, size, failure);
    if (!memory || !memory->virt_addr) return -1;
    for (uint64_t at = 0; at < count; at++)
      memcpy((char *)memory->virt_addr + at * step, one->content + at * row, row);
    if (set_memory(lane, memory, &attr, failure)) return -1;
  }
  for (uint32_t i = 0; i < model->n_output; i++) {
    struct attr attr = model->outputs[i];
    uint32_t size = attr.size_with_stride > attr.size ? attr.size_with_stride : attr.size;
    struct tensor_mem *memory = lane->out[i] = new_memory(lane, size, failure);
    if (!memory || !memory->virt_addr || set_memory(lane, memory, &attr, failure)) return -1;
  }
  return 0;
}

static int set_inputs(struct lane *lane, struct failure *failure) {
  const struct model *model = lane->team->model;
  if (!model->library.inputs_set) return set_without_copies(lane, failure);
  struct input *inputs = calloc(model->n_input + 1, sizeof *inputs);
  if (!inputs) return fail(failure, "device", "", "", "The board has no memory left.");
  for (uint32_t i = 0; i < model->n_input; i++) {
    const struct given *one = &lane->team->runs->inputs[i];
    inputs[i].index = i;
    inputs[i].buf = one->content;
    inputs[i].size = one->size;
    inputs[i].pass_through = (uint8_t)one->pass_through;
    inputs[i].type = one->type;
    inputs[i].fmt = one->layout;
  }
  int bad =
      CHECKED(&model->library, failure, inputs_set, lane->context, model->n_input, inputs);
  free(inputs);
  return bad;
}

static float from_half(uint16_t half) {
  int exponent = half >> 10 & 31;
  float rest = (float)(half & 1023), value;
  if (exponent == 31)
    value = rest > 0 ? NAN : INFINITY;
  else
    value = exponent ? ldexpf(1024 + rest, exponent - 25) : ldexpf(rest, -24);
  return half & 0x8000 ? -value : value;
}

/* The values of a native output as floats; NULL where its type is none that is known here. */
static char *floats(const struct attr *attr, const char *bytes, uint32_t size) {
  uint32_t element = type_bytes(attr->type);
  if (!element || (attr->type > 5 && attr->type != 9)) return NULL;
  uint32_t count = size / element;
  float *found = malloc((size_t)count * 4 + 1), scale = 1;
  int32_t zero = 0;
  if (attr->qnt_type == 2) {
    zero = attr->zp;
    scale = attr->scale;
  } else if (attr->qnt_type == 1) {
    scale = ldexpf(1, -attr->fl);
  }
  for (uint32_t i = 0; found && i < count; i++) {
    const char *at = bytes + (size_t)i * element;
    uint16_t two = 0;
    if (element == 2) memcpy(&two, at, 2);
    if (attr->type == 0)
      memcpy(&found[i], at, 4);
    else if (attr->type == 1)
      found[i] = from_half(two);
    else if (attr->type == 2)
      found[i] = (float)(*(const int8_t *)at - zero) * scale;
    else if (element == 1) /* UINT8 and BOOL */
      found[i] = (float)(*(const uint8_t *)at - zero) * scale;
    else
      found[i] = (float)((attr->type == 4 ? (int16_t)two : (int32_t)two) - zero) * scale;
  }
  return (char *)found;
}

static int take_memory(struct lane *lane, struct failure *failure) {
  const struct model *model = lane->team->model;
  struct runs *runs = lane->team->runs;
  char number[16];
  for (uint32_t i = 0; i < model->n_output; i++) {
    const struct attr *attr = &model->outputs[i];
    uint64_t row, step;
    rows(attr, type_bytes(attr->type), attr->size, &row, &step);
    if (model->library.mem_sync)
      CALL(&model->library, mem_sync, lane->context, lane->out[i], FROM_DEVICE);
    char *bytes = malloc((size_t)attr->size + 1);
    if (!bytes) return fail(failure, "device", "", "", "The board has no memory left.");
    for (uint64_t at = 0; row && at < attr->size / row; at++)
      memcpy(bytes + at * row, (char *)lane->out[i]->virt_addr + at * step, row);
    runs->sizes[i] = attr->size;
    runs->outputs[i] = bytes;
    if (!runs->want_float) continue;
    runs->outputs[i] = floats(attr, bytes, attr->size);
    free(bytes);
    if (!runs->outputs[i])
      return fail(failure, RUNTIME, "", "Ask for it without want_float.",
                  "An output of type %s cannot be had as floats here.",
                  type_name(attr->type, number));
    runs->sizes[i] = attr->size / type_bytes(attr->type) * 4;
  }
  return 0;
}

static int take_perf(struct lane *lane, struct failure *failure) {
  const struct library *library = &lane->team->model->library;
  struct perf_detail detail = {0};
  if (library_query(library, lane->context, QUERY_PERF_DETAIL, &detail, sizeof detail, failure))
    return -1;
  size_t size = detail.data_len < PERF_LIMIT ? (size_t)detail.data_len : PERF_LIMIT;
  lane->team->runs->perf = detail.perf_data ? strndup(detail.perf_data, size) : strdup("");
  return 0;
}

/* After a run: what it brought, copied before the library frees it. */
static int take(struct lane *lane, int last, int64_t *run_us, struct failure *failure) {
  const struct model *model = lane->team->model;
  const struct library *library = &model->library;
  struct runs *runs = lane->team->runs;
  *run_us = -1;
  if (lane->out) return last && runs->want_outputs ? take_memory(lane, failure) : 0;
  struct output *outputs = calloc(model->n_output + 1, sizeof *outputs);
  if (!outputs) return fail(failure, "device", "", "", "The board has no memory left.");
  for (uint32_t i = 0; i < model->n_output; i++) {
    outputs[i].index = i;
    outputs[i].want_float = (uint8_t)(last && runs->want_float && runs->want_outputs);
  }
  if (CHECKED(library, failure, outputs_get, lane->context, model->n_output, outputs, NULL)) {
    free(outputs);
    return -1;
  }
  struct perf_run time = {0};
  if (CALL(library, query, lane->context, QUERY_PERF_RUN, &time, sizeof time) >= 0)
    *run_us = time.run_duration;
  int bad = last && runs->want_perf ? take_perf(lane, failure) : 0;
  for (uint32_t i = 0; !bad && last && runs->want_outputs && i < model->n_output; i++) {
    if (!(runs->outputs[i] = malloc((size_t)outputs[i].size + 1))) {
      bad = fail(failure, "device", "", "", "The board has no memory left.");
      break;
    }
    memcpy(runs->outputs[i], outputs[i].buf, outputs[i].size);
    runs->sizes[i] = outputs[i].size;
  }
  CALL(library, outputs_release, lane->context, model->n_output, outputs);
  free(outputs);
  return bad;
}

static int run_once(struct lane *lane, int counted, int last, struct failure *failure) {
  struct team *team = lane->team;
  const struct library *library = &team->model->library;
  uint64_t mark = noise_mark();
  int64_t begun = now_us(), run_us;
  int code = CALL(library, run, lane->context, NULL);
  int64_t wall_us = now_us() - begun;
  if (check(library, "rknn_run", code, mark, failure) || take(lane, last, &run_us, failure))
    return -1;
  if (!counted) return 0;
  pthread_mutex_lock(&team->lock);
  team->runs->wall_us[team->runs->done++] = wall_us;
  if (run_us >= 0) team->runs->run_us[team->runs->told_times++] = run_us;
  team->finished = now_us();
  pthread_mutex_unlock(&team->lock);
  return 0;
}

static int stopped(struct team *team) {
  pthread_mutex_lock(&team->lock);
  int stop = team->stop;
  pthread_mutex_unlock(&team->lock);
  return stop;
}

/* Wait until every lane is warm; 0 where one failed meanwhile. */
static int all_warm(struct team *team) {
  pthread_mutex_lock(&team->lock);
  if (++team->warm == team->runs->threads) team->begun = now_us();
  pthread_cond_broadcast(&team->changed);
  while (!team->stop && team->warm < team->runs->threads)
    pthread_cond_wait(&team->changed, &team->lock);
  int go = !team->stop;
  pthread_mutex_unlock(&team->lock);
  return go;
}

static int work(struct lane *lane, struct failure *failure) {
  struct team *team = lane->team;
  if (set_inputs(lane, failure)) return -1;
  for (int64_t i = 0; i < team->runs->warmup && !stopped(team); i++)
    if (run_once(lane, 0, 0, failure)) return -1;
  if (!all_warm(team)) return 0;
  for (int64_t i = 0; i < team->runs->loops && !stopped(team); i++)
    if (run_once(lane, 1, !lane->number && i == team->runs->loops - 1, failure)) return -1;
  return 0;
}

static void *lane_main(void *argument) {
  struct lane *lane = argument;
  struct team *team = lane->team;
  struct failure failure;
  int bad = work(lane, &failure);
  pthread_mutex_lock(&team->lock);
  if (bad && !team->failed) {
    team->failed = 1;
    team->failure = failure;
  }
  if (bad) team->stop = 1;
  team->ended++;
  pthread_cond_broadcast(&team->changed);
  pthread_mutex_unlock(&team->lock);
  return NULL;
}

static void watch(struct team *team, int started) {
  struct runs *runs = team->runs;
  int64_t told = 0;
  pthread_mutex_lock(&team->lock);
  for (;;) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += TELL_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    if (team->ended < started) pthread_cond_timedwait(&team->changed, &team->lock, &until);
    if (*runs->cancelled) {
      team->stop = 1;
      pthread_cond_broadcast(&team->changed);
    }
    int64_t done = runs->done;
    int over = team->ended == started;
    pthread_mutex_unlock(&team->lock);
    if (done > told) runs->tell(runs->whom, runs, done);
    told = done;
    if (over) return;
    pthread_mutex_lock(&team->lock);
  }
}

/* The first context, or one for one more thread. */
static int another(struct model *model, struct failure *failure) {
  rknn_context *context = &model->contexts[model->n_context];
  const struct library *library = &model->library;
  if (model->n_context && library->dup_context
          ? CHECKED(library, failure, dup_context, &model->contexts[0], context)
          : library_init(library, model->path, model->content, model->size, model->flags, context,
                         failure))
    return -1;
  model->n_context++;
  choose_cores(model, *context);
  return 0;
}

/* The model loaded anew: librknnrt 1.5.2 and 1.6.0 die by SIGSEGV where a context is duplicated that
 * was asked for its memory; librknnmrt refuses to run where memory of an input that it converts was
 * bound a second time ("not support input dtype=UINT8"). */
static int load_anew(struct model *model, struct failure *failure) {
  while (model->n_context > 0) CALL(&model->library, destroy, model->contexts[--model->n_context]);
  model->told_memory = model->bound = 0;
  return another(model, failure);
}

static void free_memory(const struct model *model, struct lane *lane) {
  for (uint32_t i = 0; lane->in && i < model->n_input; i++)
    if (lane->in[i]) CALL(&model->library, destroy_mem, lane->context, lane->in[i]);
  for (uint32_t i = 0; lane->out && i < model->n_output; i++)
    if (lane->out[i]) CALL(&model->library, destroy_mem, lane->context, lane->out[i]);
  free(lane->in);
  free(lane->out);
}

int runs_work(struct model *model, struct runs *runs, struct failure *failure) {
  struct lane lanes[MOST_THREADS] = {0};
  struct team team = {.model = model, .runs = runs};
  int started = 0;
  int anew = !model->n_context; /* it failed the last time */
  anew |= model->library.mini && model->bound;
  if (anew && load_anew(model, failure)) return -1;
  model->bound = 1;
  if (model->n_context < runs->threads && model->told_memory && model->library.dup_context &&
      load_anew(model, failure))
    return -1;
  while (model->n_context < runs->threads)
    if (another(model, failure)) return -1;
  size_t all = (size_t)(runs->loops * runs->threads);
  runs->wall_us = calloc(all, sizeof *runs->wall_us);
  runs->run_us = calloc(all, sizeof *runs->run_us);
  runs->outputs = calloc(model->n_output + 1, sizeof *runs->outputs);
  runs->sizes = calloc(model->n_output + 1, sizeof *runs->sizes);
  if (!runs->wall_us || !runs->run_us || !runs->outputs || !runs->sizes)
    return fail(failure, "device", "", "", "The board has no memory left.");
  pthread_mutex_init(&team.lock, NULL);
  pthread_cond_init(&team.changed, NULL);
  for (; started < runs->threads; started++) {
    struct lane *lane = &lanes[started];
    lane->team = &team;
    lane->number = started;
    lane->context = model->contexts[started];
    if (pthread_create(&lane->thread, NULL, lane_main, lane)) {
      pthread_mutex_lock(&team.lock);
      team.stop = team.failed = 1;
      fail(&team.failure, "device", "", "", "A thread could not be started.");
      pthread_mutex_unlock(&team.lock);
      break;
    }
  }
  watch(&team, started);
  for (int i = 0; i < started; i++) {
    pthread_join(lanes[i].thread, NULL);
    free_memory(model, &lanes[i]);
  }
  runs->elapsed_us = team.finished - team.begun;
  if (team.failed) *failure = team.failure;
  return team.failed ? -1 : 0;
}

void runs_free(const struct model *model, struct runs *runs) {
  for (uint32_t i = 0; runs->outputs && i < model->n_output; i++) free(runs->outputs[i]);
  free(runs->outputs);
  free(runs->sizes);
  free(runs->wall_us);
  free(runs->run_us);
  free(runs->perf);
}
