#define _GNU_SOURCE
#include "standin.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ID, OP, DTYPE, TARGET, IN, OUT, DDR, NPU, WHOLE, TIME, MAC, WORKLOAD, KB, NAME, CYCLES };

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

#if GENERATION == 2
struct column {
  const char *title;
  int which;
};

static const char *cell(const struct layer *layer, int which, char *room, size_t size) {
  char *const *cells = layer->columns;
  if (which != CYCLES) return cells[which];
  snprintf(room, size, "%s/%s/%s", cells[DDR], cells[NPU], cells[WHOLE]);
  return room;
}

/* Columns as wide as their longest cell and two blanks more. */
static void table(FILE *text, const struct answers *a, const struct column *columns,
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
  for (int c = 0; c < count; c++) fprintf(text, "%-*s  ", widths[c], columns[c].title);
  fprintf(text, "\n");
  for (uint32_t i = 0; i < a->n_layer; i++) {
    for (int c = 0; c < count; c++)
      fprintf(text, "%-*s  ", widths[c], cell(&a->layers[i], columns[c].which, room, sizeof room));
    fprintf(text, "\n");
  }
}

static void line(FILE *text) {
  for (int i = 0; i < 120; i++) fputc('-', text);
  fputc('\n', text);
}

static void ranking(FILE *text, const struct answers *a, uint64_t total) {
  uint32_t count;
  struct share *found = shares(a, &count);
  fprintf(text, "%-20s %-12s %-12s %-12s %-12s %-12s %s\n", "OpType", "CallNumber", "CPUTime(us)",
      "GPUTime(us)", "NPUTime(us)", "TotalTime(us)", "TimeRatio(%)");
  line(text);
  for (uint32_t i = 0; found && i < count; i++) {
    uint64_t whole = found[i].cpu + found[i].npu;
    fprintf(text, "%-20s %-12" PRIu64 " %-12" PRIu64 " %-12d %-12" PRIu64 " %-12" PRIu64 "  %.2f%%\n",
        found[i].op, found[i].calls, found[i].cpu, 0, found[i].npu, whole,
        total ? 100.0 * (double)whole / (double)total : 0.0);
  }
  free(found);
}

static void second(FILE *text, const struct answers *a, uint64_t us) {
  uint64_t kb = 0;
  for (uint32_t i = 0; i < a->n_layer; i++) kb += a->layers[i].kilobytes;
  const char *load = a->cores == 3 ? "WorkLoad(0/1/2)" : a->cores == 2 ? "WorkLoad(0/1)" : "WorkLoad";
  const struct column columns[] = {
      {"ID", ID},           {"OpType", OP},     {"DataType", DTYPE},
      {"Target", TARGET},   {"InputShape", IN}, {"OutputShape", OUT},
      {"Cycles(DDR/NPU/Total)", CYCLES},        {"Time(us)", TIME},
      {"MacUsage(%)", MAC}, {load, WORKLOAD},   {"RW(KB)", KB},
      {"FullName", NAME}};
  line(text);
  fprintf(text, "%40s%s\n", "", "Network Layer Information Table");
  line(text);
  table(text, a, columns, 12);
  line(text);
  fprintf(text, "Total Operator Elapsed Per Frame Time(us): %" PRIu64 "\n", us);
  fprintf(text, "Total Memory Read/Write Per Frame Size(KB): %" PRIu64 "\n", kb);
  line(text);
  fprintf(text, "%40s%s\n", "", "Operator Time Consuming Ranking Table");
  line(text);
  ranking(text, a, us);
}

#else
/* A layer whose operator is "A+B" has a second line with B in the column Operator alone. */
static void first(FILE *text, const struct answers *a, uint64_t us, uint64_t run_us) {
  uint32_t count;
  struct share *found = shares(a, &count);
  fprintf(text, "%-10s %-48s %-28s %-8s %s\n", "Layer ID", "Name", "Operator", "Uid", "Time(us)");
  for (uint32_t i = 0; i < a->n_layer; i++) {
    const struct layer *layer = &a->layers[i];
    const char *op = layer->columns[OP];
    int size = (int)strcspn(op, "+");
    int cpu = strcmp(layer->columns[TARGET], "NPU");
    fprintf(text, "%-10s %-48s %-28.*s %-8s %s\n", layer->columns[ID], layer->columns[NAME],
            size, op, cpu ? "" : layer->columns[ID], layer->columns[TIME]);
    while (op[size]) {
      op += size + 1;
      size = (int)strcspn(op, "+");
      fprintf(text, "%-10s %-48s %.*s\n", "", "", size, op);
    }
  }
  fprintf(text, "Total Time(us): %" PRIu64 "\n", us);
  fprintf(text, "FPS: %.2f\n", run_us ? 1e6 / (double)run_us : 0.0);
  fprintf(text, "%-28s %-14s %-18s %s\n", "OP", "Call Number", "Total Time(us)", "Time Ratio(%)");
  for (uint32_t i = 0; found && i < count && i < 5; i++) {
    uint64_t whole = found[i].cpu + found[i].npu;
    fprintf(text, "%-28s %-14" PRIu64 " %-18" PRIu64 " %.2f\n", found[i].op, found[i].calls, whole,
        us ? 100.0 * (double)whole / (double)us : 0.0);
  }
  free(found);
}

#endif

char *perf_text(const struct answers *a, uint64_t run_us) {
  char *bytes = NULL;
  size_t size;
  uint64_t us = 0;
  FILE *text = open_memstream(&bytes, &size);
  if (!text) return NULL;
  for (uint32_t i = 0; i < a->n_layer; i++) us += a->layers[i].us;
#if GENERATION == 1
  first(text, a, us, run_us);
#else
  (void)run_us;
  second(text, a, us);
#endif
  return fclose(text) ? NULL : bytes;
}
