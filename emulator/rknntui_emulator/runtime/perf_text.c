#include "perf_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "facts.h"

struct text {
  char *bytes;
  size_t size, room;
  int failed;
};

static void add(struct text *text, const char *form, ...) {
  va_list values;
  va_start(values, form);
  int size = vsnprintf(NULL, 0, form, values);
  va_end(values);
  if (text->size + (size_t)size + 1 > text->room) {
    size_t room = 2 * (text->size + (size_t)size + 1);
    char *grown = realloc(text->bytes, room);
    if (!grown) {
      text->failed = 1;
      return;
    }
    text->bytes = grown;
    text->room = room;
  }
  va_start(values, form);
  vsnprintf(text->bytes + text->size, text->room - text->size, form, values);
  va_end(values);
  text->size += (size_t)size;
}

enum { ID, OP, DTYPE, TARGET, IN, OUT, DDR, NPU, WHOLE, TIME, MAC, WORKLOAD, KB, NAME, CYCLES, DASH };

struct column {
  const char *title;
  int which;
};

static const char *cell(const struct layer *layer, int which, char *room, size_t size) {
  if (which == CYCLES) {
    snprintf(room, size, "%s/%s/%s", layer->columns[DDR], layer->columns[NPU],
             layer->columns[WHOLE]);
    return room;
  }
  return which == DASH ? "0" : layer->columns[which];
}

/* Columns as wide as their longest cell and two blanks more. */
static void table(struct text *text, const struct answers *a, const struct column *columns,
                  int count) {
  char room[128];
  int widths[16];
  for (int c = 0; c < count; c++) {
    widths[c] = (int)strlen(columns[c].title);
    for (uint32_t i = 0; i < a->n_layer; i++) {
      int length = (int)strlen(cell(&a->layers[i], columns[c].which, room, sizeof room));
      if (length > widths[c]) widths[c] = length;
    }
  }
  for (int c = 0; c < count; c++) add(text, "%-*s  ", widths[c], columns[c].title);
  add(text, "\n");
  for (uint32_t i = 0; i < a->n_layer; i++) {
    for (int c = 0; c < count; c++)
      add(text, "%-*s  ", widths[c], cell(&a->layers[i], columns[c].which, room, sizeof room));
    add(text, "\n");
  }
}

struct share {
  const char *op;
  uint64_t calls, cpu, npu;
};

static int longer(const void *one, const void *two) {
  const struct share *a = one, *b = two;
  uint64_t x = a->cpu + a->npu, y = b->cpu + b->npu;
  return x < y ? 1 : x > y ? -1 : strcmp(a->op, b->op);
}

/* The time of each kind of operator, the longest first; to be freed. */
static struct share *shares(const struct answers *a, uint32_t *count) {
  struct share *found = calloc(a->n_layer + 1, sizeof *found);
  *count = 0;
  for (uint32_t i = 0; found && i < a->n_layer; i++) {
    const struct layer *layer = &a->layers[i];
    uint32_t s = 0;
    while (s < *count && strcmp(found[s].op, layer->columns[OP])) s++;
    if (s == *count) found[(*count)++].op = layer->columns[OP];
    found[s].calls++;
    if (strcmp(layer->columns[TARGET], "NPU"))
      found[s].cpu += layer->us;
    else
      found[s].npu += layer->us;
  }
  if (found) qsort(found, *count, sizeof *found, longer);
  return found;
}

static void line(struct text *text, char sign) {
  for (int i = 0; i < 120; i++) add(text, "%c", sign);
  add(text, "\n");
}

static void ranking(struct text *text, const struct answers *a, uint64_t total, int gpu) {
  uint32_t count;
  struct share *found = shares(a, &count);
  if (!found) text->failed = 1;
  if (gpu)
    add(text, "%-20s %-12s %-12s %-12s %-12s %-12s %s\n", "OpType", "CallNumber", "CPUTime(us)",
        "GPUTime(us)", "NPUTime(us)", "TotalTime(us)", "TimeRatio(%)");
  else
    add(text, "%-20s %-14s %-14s %-14s %-14s %s\n", "OpType", "Call Number", "CPU Time(us)",
        "NPU Time(us)", "Total Time(us)", "Time Ratio(%)");
  line(text, '-');
  for (uint32_t i = 0; found && i < count; i++) {
    uint64_t whole = found[i].cpu + found[i].npu;
    double ratio = total ? 100.0 * (double)whole / (double)total : 0.0;
    if (gpu)
      add(text, "%-20s %-12" PRIu64 " %-12" PRIu64 " %-12d %-12" PRIu64 " %-12" PRIu64 "  %.2f%%\n",
          found[i].op, found[i].calls, found[i].cpu, 0, found[i].npu, whole, ratio);
    else
      add(text,
          "%-20s %-14" PRIu64 " %-14" PRIu64 " %-14" PRIu64 " %-14" PRIu64 " %.2f%%\n",
          found[i].op, found[i].calls, found[i].cpu, found[i].npu, whole, ratio);
  }
  free(found);
}

static void newer(struct text *text, const struct answers *a, uint64_t us, uint64_t kb) {
  const char *load = a->cores == 3 ? "WorkLoad(0/1/2)" : a->cores == 2 ? "WorkLoad(0/1)" : "WorkLoad";
  const struct column columns[] = {
      {"ID", ID},           {"OpType", OP},     {"DataType", DTYPE},
      {"Target", TARGET},   {"InputShape", IN}, {"OutputShape", OUT},
      {"Cycles(DDR/NPU/Total)", CYCLES},        {"Time(us)", TIME},
      {"MacUsage(%)", MAC}, {load, WORKLOAD},   {"RW(KB)", KB},
      {"FullName", NAME}};
  line(text, '-');
  add(text, "%40s%s\n", "", "Network Layer Information Table");
  line(text, '-');
  table(text, a, columns, 12);
  line(text, '-');
  add(text, "Total Operator Elapsed Per Frame Time(us): %" PRIu64 "\n", us);
  add(text, "Total Memory Read/Write Per Frame Size(KB): %" PRIu64 "\n", kb);
  line(text, '-');
  add(text, "%40s%s\n", "", "Operator Time Consuming Ranking Table");
  line(text, '-');
  ranking(text, a, us, 1);
}

static void older(struct text *text, const struct answers *a, uint64_t us, uint64_t kb) {
  static const struct column columns[] = {{"ID", ID},
                                          {"OpType", OP},
                                          {"DataType", DTYPE},
                                          {"Target", TARGET},
                                          {"InputShape", IN},
                                          {"OutputShape", OUT},
                                          {"DDR Cycles", DDR},
                                          {"NPU Cycles", NPU},
                                          {"Total Cycles", WHOLE},
                                          {"Time(us)", TIME},
                                          {"MacUsage(%)", MAC},
                                          {"WorkLoad(0/1/2)-ImproveTherical", WORKLOAD},
                                          {"Task Number", DASH},
                                          {"Lut Number", DASH},
                                          {"RW(KB)", KB},
                                          {"FullName", NAME}};
  table(text, a, columns, 16);
  add(text, "Total Operator Elapsed Time(us): %" PRIu64 "\n\n", us);
  add(text, "Total Memory RW Amount(MB): %" PRIu64 "\n\n", kb / 1024);
  add(text, "Operator Time-Consuming Ranking:\n");
  ranking(text, a, us, 0);
}

/* A layer whose operator is "A+B" has a second line with B in the column Operator alone. */
static void first(struct text *text, const struct answers *a, uint64_t us, uint64_t run_us) {
  uint32_t count;
  struct share *found = shares(a, &count);
  add(text, "%-10s %-48s %-28s %-8s %s\n", "Layer ID", "Name", "Operator", "Uid", "Time(us)");
  for (uint32_t i = 0; i < a->n_layer; i++) {
    const struct layer *layer = &a->layers[i];
    const char *op = layer->columns[OP], *plus = strchr(op, '+');
    int cpu = strcmp(layer->columns[TARGET], "NPU");
    add(text, "%-10s %-48s %-28.*s %-8s %s\n", layer->columns[ID], layer->columns[NAME],
        (int)(plus ? plus - op : (long)strlen(op)), op, cpu ? "" : layer->columns[ID],
        layer->columns[TIME]);
    while (plus) {
      op = plus + 1;
      plus = strchr(op, '+');
      add(text, "%-10s %-48s %.*s\n", "", "", (int)(plus ? plus - op : (long)strlen(op)), op);
    }
  }
  add(text, "Total Time(us): %" PRIu64 "\n", us);
  add(text, "FPS: %.2f\n", run_us ? 1e6 / (double)run_us : 0.0);
  add(text, "%-28s %-14s %-18s %s\n", "OP", "Call Number", "Total Time(us)", "Time Ratio(%)");
  for (uint32_t i = 0; found && i < count && i < 5; i++) {
    uint64_t whole = found[i].cpu + found[i].npu;
    add(text, "%-28s %-14" PRIu64 " %-18" PRIu64 " %.2f\n", found[i].op, found[i].calls, whole,
        us ? 100.0 * (double)whole / (double)us : 0.0);
  }
  free(found);
}

char *perf_text(const struct answers *a, const char *version, uint64_t run_us) {
  struct text text = {0};
  uint64_t us = 0, kb = 0;
  int major = 0, minor = 0;
  for (uint32_t i = 0; i < a->n_layer; i++) {
    us += a->layers[i].us;
    kb += a->layers[i].kilobytes;
  }
  sscanf(version, "%d.%d", &major, &minor);
  const char *dialect = a->dialect;
  if (!*dialect)
    dialect = GENERATION == 1 ? "1" : major > 1 || minor >= 6 ? "1.6" : "1.5";
  add(&text, "%s", "");
  if (!strcmp(dialect, "1"))
    first(&text, a, us, run_us);
  else if (!strcmp(dialect, "1.5"))
    older(&text, a, us, kb);
  else
    newer(&text, a, us, kb);
  if (text.failed) {
    free(text.bytes);
    return NULL;
  }
  return text.bytes;
}
