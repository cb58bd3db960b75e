#define _GNU_SOURCE
#include "methods.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "board_root.h"
#include "run.h"

enum { MODEL_LIMIT = INT32_MAX, MOST_LIBRARIES = 16, MOST_LOOPS = 1000000 };

static struct model *opened; /* one at a time */
static struct library library;

static void close_model(void) {
  if (!opened) return;
  for (int i = opened->n_context - 1; i >= 0; i--)
    CALL(&opened->library, destroy, opened->contexts[i]);
  free(opened->content);
  free(opened->inputs);
  free(opened->outputs);
  free(opened);
  opened = NULL;
}

static void add_attr(struct text *text, const struct attr *attr, int generation, int first) {
  char number[16];
  text_add(text, "%s{\"index\":%u", first ? "" : ",", attr->index);
  text_member(text, "name", attr->name, sizeof attr->name);
  text_add(text, ",\"dims\":[");
  for (uint32_t i = 0; i < attr->n_dims; i++) text_add(text, "%s%u", i ? "," : "", attr->dims[i]);
  text_add(text, "],\"layout\":\"%s\"", layout_name(attr->fmt, number));
  text_add(text, ",\"dtype\":\"%s\"", type_name(attr->type, number));
  text_add(text, ",\"quantization\":\"%s\"", quantization_name(attr->qnt_type, number));
  text_add(text, ",\"fl\":%d,\"zero_point\":%lld", attr->fl,
           generation == 1 ? (long long)(uint32_t)attr->zp : (long long)attr->zp);
  /* NaN and infinity are not JSON */
  if (attr->scale - attr->scale == 0)
    text_add(text, ",\"scale\":%.17g", (double)attr->scale);
  else
    text_add(text, ",\"scale\":null");
  text_add(text, ",\"elements\":%u,\"size\":%u,\"size_with_stride\":%u", attr->n_elems, attr->size,
           attr->size_with_stride);
  text_add(text, ",\"w_stride\":%u,\"h_stride\":%u,\"pass_through\":%s}", attr->w_stride,
           attr->h_stride, attr->pass_through ? "true" : "false");
}

static void add_memory(struct text *text, const struct mem_size *sizes) {
  text_add(text, "{\"weight\":%u,\"internal\":%u,\"dma\":%" PRIu64 ",\"sram\":%u,\"sram_free\":%u}",
           sizes->total_weight_size, sizes->total_internal_size, sizes->total_dma_allocated_size,
           sizes->total_sram_size, sizes->free_sram_size);
}

static int read_attrs(struct model *model, struct failure *failure) {
  struct counts counts = {0};
  if (library_query(&model->library, model->contexts[0], QUERY_IN_OUT_NUM, &counts, sizeof counts,
                    failure))
    return -1;
  if (counts.n_input > MOST_TENSORS || counts.n_output > MOST_TENSORS)
    return fail(failure, RUNTIME, "", "", "The model has too many inputs or outputs.");
  model->n_input = counts.n_input;
  model->n_output = counts.n_output;
  model->inputs = calloc(counts.n_input + 1, sizeof *model->inputs);
  model->outputs = calloc(counts.n_output + 1, sizeof *model->outputs);
  if (!model->inputs || !model->outputs)
    return fail(failure, "device", "", "", "The board has no memory left.");
  for (int output = 0; output < 2; output++)
    for (uint32_t i = 0; i < (output ? counts.n_output : counts.n_input); i++)
      if (library_attr(&model->library, model->contexts[0], output, i,
                       output ? &model->outputs[i] : &model->inputs[i], failure))
        return -1;
  return 0;
}

static void describe(struct model *model, struct text *result) {
  const struct library *from = &model->library;
  rknn_context context = model->contexts[0];
  struct sdk_version version = {0};
  struct custom_string custom = {0};
  struct mem_size sizes = {0};
  int cores = choose_cores(model, context), notes = 0, second = from->generation == 2;
  from->query(context, QUERY_SDK_VERSION, &version, sizeof version);
  if (second) from->query(context, QUERY_CUSTOM_STRING, &custom, sizeof custom);
  text_add(result, "{\"generation\":%d", from->generation);
  text_member(result, "library", from->path, sizeof from->path);
  text_member(result, "api_version", version.api_version, sizeof version.api_version);
  text_member(result, "driver_version", version.drv_version, sizeof version.drv_version);
  text_member(result, "custom_string", custom.string, sizeof custom.string);
  text_add(result, ",\"inputs\":[");
  for (uint32_t i = 0; i < model->n_input; i++)
    add_attr(result, &model->inputs[i], from->generation, !i);
  text_add(result, "],\"outputs\":[");
  for (uint32_t i = 0; i < model->n_output; i++)
    add_attr(result, &model->outputs[i], from->generation, !i);
  text_add(result, "],\"memory\":");
  model->told_memory = second;
  int told = second && from->query(context, QUERY_MEM_SIZE, &sizes, sizeof sizes) >= 0;
  if (told)
    add_memory(result, &sizes);
  else
    text_add(result, "null");
  text_add(result, ",\"notes\":[");
  if (cores > 0)
    text_add(result, "%s\"This runtime library cannot choose cores: the mask is ignored.\"",
             notes++ ? "," : "");
  if (cores < 0)
    text_add(result, "%s\"The mask of cores is ignored: rknn_set_core_mask returned %s.\"",
             notes++ ? "," : "", error_name(cores));
  if (second && !from->inputs_set)
    text_add(result, "%s\"This runtime library tells neither its own time nor the layers.\"",
             notes++ ? "," : "");
  if (second && !told)
    text_add(result, "%s\"This runtime library does not tell the model's memory.\"",
             notes++ ? "," : "");
  text_add(result, "]}");
}

static int number_of(struct request *request, const char *name, int64_t least, int64_t most,
                     int64_t *value, struct failure *failure) {
  const struct node *node = json_get(&request->document, request->params, name);
  if (!node || node->kind == JSON_NULL || json_whole(node, least, most, value)) return 0;
  return fail(failure, "device", "", "", "'%s' has to be a whole number from %lld to %lld.", name,
              (long long)least, (long long)most);
}

static int find_library(struct request *request, struct failure *failure) {
  const struct document *document = &request->document;
  const char *paths[MOST_LIBRARIES + 1] = {NULL};
  const struct node *listed = json_get(document, request->params, "libraries");
  int64_t generation = 0;
  int count = 0;
  for (const struct node *one = json_first(document, listed); one && count < MOST_LIBRARIES;
       one = json_next(document, one))
    if (!(paths[count++] = path_of(one, failure))) return -1;
  if (!count) return fail(failure, "device", "", "", "`open` takes a list of libraries.");
  json_whole(json_get(document, request->params, "generation"), 1, 2, &generation);
  return library_load(&library, paths, (int)generation, failure);
}

static int method_open(struct request *request, struct text *result, struct failure *failure) {
  const struct document *document = &request->document;
  const struct node *params = request->params;
  const char *path = path_of(json_get(document, params, "model"), failure);
  int64_t flags = 0, mask = -1;
  close_model();
  if (!path || number_of(request, "flags", 0, UINT32_MAX, &flags, failure) ||
      number_of(request, "core_mask", 0, INT32_MAX, &mask, failure) ||
      find_library(request, failure))
    return -1;
  struct model *model = opened = calloc(1, sizeof *model);
  if (!model) return fail(failure, "device", "", "", "The board has no memory left.");
  if (json_true(json_get(document, params, "perf"))) flags |= FLAG_COLLECT_PERF;
  model->library = library;
  model->flags = (uint32_t)flags;
  model->core_mask = (int)mask;
  snprintf(model->path, sizeof model->path, "%s", path);
  char room[BOARD_PATH];
  uint32_t size;
  int bad = 0;
  if (library.generation == 1)
    bad = !(model->content = read_whole(path, MODEL_LIMIT, &model->size, failure));
  else if (access(board_to_host(path, room), R_OK)) /* says why */
    bad = !read_whole(path, MODEL_LIMIT, &size, failure);
  if (!bad)
    bad = library_init(&model->library, path, model->content, model->size, model->flags,
                       &model->contexts[0], failure);
  if (!bad) {
    model->n_context = 1;
    bad = read_attrs(model, failure);
  }
  if (bad) {
    close_model();
    return -1;
  }
  describe(model, result);
  return 0;
}

static int need_model(struct failure *failure) {
  return opened ? 0 : fail(failure, RUNTIME, "", "Open one first.", "No model is open.");
}

static int method_memory(struct request *request, struct text *result, struct failure *failure) {
  (void)request;
  struct mem_size sizes = {0};
  if (need_model(failure)) return -1;
  if (opened->library.generation == 1)
    return fail(failure, RUNTIME, "The C interface of generation 1 has no such query.", "",
                "The memory of a model is not available on this runtime.");
  opened->told_memory = 1;
  if (library_query(&opened->library, opened->contexts[0], QUERY_MEM_SIZE, &sizes, sizeof sizes,
                    failure))
    return -1;
  add_memory(result, &sizes);
  return 0;
}

/* An input of a request, read and compared with the model's. */
static int read_given(struct request *request, const struct node *node, const struct attr *attr,
                      struct given *given, struct failure *failure) {
  const struct document *document = &request->document;
  const char *dtype = json_text(json_get(document, node, "dtype"));
  const char *layout = json_text(json_get(document, node, "layout"));
  char number[16];
  given->type = type_of(dtype);
  given->layout = layout_of(layout ? layout : "UNDEFINED");
  given->pass_through = json_true(json_get(document, node, "pass_through"));
  if (given->type < 0 || given->layout < 0)
    return fail(failure, RUNTIME, "The runtime library has no such value.", "",
                "Input %u has the type '%.40s' and the layout '%.40s'.", attr->index,
                dtype ? dtype : "", layout ? layout : "");
  const char *path = path_of(json_get(document, node, "path"), failure);
  if (!path || !(given->content = read_whole(path, MODEL_LIMIT, &given->size, failure))) return -1;
  uint64_t wanted = (uint64_t)attr->n_elems * type_bytes(given->type);
  if (!given->pass_through && wanted && given->size != wanted)
    return fail(failure, RUNTIME, "", "Compare its shape with the model's.",
                "Input %u has %u bytes; the model takes %u of %s, which are %" PRIu64 ".",
                attr->index, given->size, attr->n_elems, type_name(given->type, number), wanted);
  return 0;
}

static void add_numbers(struct text *text, const int64_t *numbers, int64_t from, int64_t to) {
  text_add(text, "[");
  for (int64_t i = from; i < to; i++)
    text_add(text, "%s%" PRId64, i > from ? "," : "", numbers[i]);
  text_add(text, "]");
}

struct told {
  struct request *request;
  int64_t done;
};

static void tell(void *whom, const struct runs *runs, int64_t done) {
  struct told *told = whom;
  struct text text = {0};
  text_add(&text, "\"done\":%" PRId64 ",\"total\":%" PRId64 ",\"wall_us\":", done,
           runs->loops * runs->threads);
  add_numbers(&text, runs->wall_us, told->done, done);
  if (!text.failed) request_progress(told->request, text.bytes);
  free(text.bytes);
  told->done = done;
}

static int write_outputs(const struct runs *runs, const char *folder, struct text *result,
                         struct failure *failure) {
  char path[4100];
  for (uint32_t i = 0; runs->want_outputs && i < opened->n_output; i++) {
    snprintf(path, sizeof path, "%s/output%u.bin", folder, i);
    if (write_whole(path, runs->outputs[i], runs->sizes[i], failure)) return -1;
    text_add(result, "%s{\"path\":", i ? "," : "");
    text_string(result, path, strlen(path));
    text_add(result, ",\"size\":%u}", runs->sizes[i]);
  }
  return 0;
}

static int run_given(struct request *request, struct runs *runs, struct text *result,
                     struct failure *failure) {
  const struct document *document = &request->document;
  const struct node *folder = json_get(document, request->params, "outputs");
  int64_t threads = 1;
  const char *path = NULL;
  struct told told = {request, 0};
  runs->warmup = 0;
  runs->loops = 1;
  if (number_of(request, "warmup", 0, MOST_LOOPS, &runs->warmup, failure) ||
      number_of(request, "loops", 1, MOST_LOOPS, &runs->loops, failure) ||
      number_of(request, "threads", 1, MOST_THREADS, &threads, failure))
    return -1;
  if (threads > 1 && opened->library.mini)
    return fail(failure, RUNTIME, "It has no call that makes another context of a model.",
                "Measure it with one thread.",
                "The runtime library of this board runs a model on one thread, not on %d.",
                (int)threads);
  runs->threads = (int)threads;
  runs->want_outputs = folder && folder->kind != JSON_NULL;
  if (runs->want_outputs && !(path = path_of(folder, failure))) return -1;
  runs->want_float = json_true(json_get(document, request->params, "want_float"));
  runs->want_perf = (opened->flags & FLAG_COLLECT_PERF) && opened->library.inputs_set;
  runs->cancelled = &request->cancelled;
  runs->tell = tell;
  runs->whom = &told;
  if (runs_work(opened, runs, failure)) return -1;
  if (request->cancelled)
    return fail(failure, "cancelled", "", "", "The request was cancelled.");
  text_add(result, "{\"outputs\":[");
  if (write_outputs(runs, path, result, failure)) return -1;
  text_add(result, "],\"wall_us\":");
  add_numbers(result, runs->wall_us, 0, runs->done);
  text_add(result, ",\"run_us\":");
  add_numbers(result, runs->run_us, 0, runs->told_times);
  text_add(result, ",\"elapsed_us\":%" PRId64 ",\"perf\":", runs->elapsed_us);
  if (runs->perf)
    text_string(result, runs->perf, strlen(runs->perf));
  else
    text_add(result, "null");
  text_add(result, "}");
  return 0;
}

static int method_run(struct request *request, struct text *result, struct failure *failure) {
  const struct document *document = &request->document;
  const struct node *listed = json_get(document, request->params, "inputs");
  struct runs runs = {0};
  uint32_t count = 0;
  int bad = need_model(failure);
  if (bad) return bad;
  JSON_EACH(one, document, listed) count++;
  if (count != opened->n_input)
    return fail(failure, RUNTIME, "The request has another number.", "",
                "The model takes %u inputs.", opened->n_input);
  struct given *given = calloc(count + 1, sizeof *given);
  if (!given) return fail(failure, "device", "", "", "The board has no memory left.");
  const struct node *one = json_first(document, listed);
  for (uint32_t i = 0; i < count && !bad; i++, one = json_next(document, one))
    bad = read_given(request, one, &opened->inputs[i], &given[i], failure);
  runs.inputs = given;
  if (!bad) {
    bad = run_given(request, &runs, result, failure);
    runs_free(opened, &runs);
  }
  for (uint32_t i = 0; i < count; i++) free(given[i].content);
  free(given);
  return bad;
}

static int method_close(struct request *request, struct text *result, struct failure *failure) {
  (void)request, (void)failure;
  close_model();
  text_add(result, "{}");
  return 0;
}

static const struct method {
  const char *name;
  int (*call)(struct request *, struct text *, struct failure *);
  int quick;    /* answered at once, whatever the NPU does */
  int converses; /* not in one-shot mode */
} METHODS[] = {
    {"close", method_close, 0, 0},
    {"digest", method_digest, 1, 0},
    {"memory", method_memory, 0, 0},
    {"open", method_open, 0, 0},
    {"read", method_read, 1, 0},
    {"restore_clocks", method_restore_clocks, 0, 0},
    {"run", method_run, 0, 0},
    {"watch", method_watch, 1, 1},
    {"write_clocks", method_write_clocks, 0, 0},
    {NULL, NULL, 0, 0},
};

static const struct method *method_of(const char *name) {
  const struct method *method = METHODS;
  while (method->name && strcmp(method->name, name)) method++;
  return method;
}

int method_is_quick(const char *method) { return method_of(method)->quick; }

int method_call(struct request *request, struct text *result, struct failure *failure) {
  const struct method *method = method_of(request->method);
  int once = request->number < 0;
  if (method->call && !(once && method->converses)) return method->call(request, result, failure);
  if (once)
    return fail(failure, "device", "", "", "There is no method '%.80s' in one-shot mode.",
                request->method);
  return fail(failure, "worker", "", "",
              "There is no method '%.80s'; there are close, digest, memory, open, read, "
              "restore_clocks, run, watch, write_clocks.",
              request->method);
}
