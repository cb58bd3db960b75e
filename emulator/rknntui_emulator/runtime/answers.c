#include "standin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char FIRST[] = "rknntui answers 1\n";
enum { FILE_LIMIT = 1 << 30, FIELDS = 16 };

static const char *const TYPES[] = {"FLOAT32", "FLOAT16", "INT8",   "UINT8", "INT16",
                                    "UINT16",  "INT32",   "UINT32", "INT64", "BOOL"};
static const char *const LAYOUTS[] = {"NCHW", "NHWC", "NC1HWC2", "UNDEFINED"};
static const char *const QUANTIZATIONS[] = {"NONE", "DFP", "AFFINE"};

uint32_t type_bytes(int type) {
  static const uint8_t bytes[TYPE_COUNT] = {4, 2, 1, 1, 2, 2, 4, 4, 8, 1};
  return type >= 0 && type < TYPE_COUNT ? bytes[type] : 0;
}

const char *type_name(int type) {
  return type >= 0 && type < TYPE_COUNT ? TYPES[type] : "?";
}

const char *layout_name(int layout) {
  return layout >= 0 && layout <= LAYOUT_UNDEFINED ? LAYOUTS[layout] : "?";
}

static int choose(const char *text, const char *const *names, int count) {
  for (int i = 0; i < count; i++)
    if (!strcmp(text, names[i])) return i;
  return -1;
}

static int number(const char *text, uint64_t most, uint64_t *value) {
  char *end;
  if (*text < '0' || *text > '9') return 0;
  errno = 0;
  unsigned long long found = strtoull(text, &end, 10);
  if (errno || *end || found > most) return 0;
  *value = found;
  return 1;
}

static int word(char *target, size_t room, const char *text) {
  size_t length = strlen(text);
  if (length >= room) return 0;
  memcpy(target, text, length + 1);
  return 1;
}

static int read_dims(struct tensor *tensor, char *text) {
  uint64_t elements = 1;
  for (char *part = text; part && *part;) {
    char *next = strchr(part, ',');
    uint64_t size;
    if (next) *next++ = 0;
    if (tensor->rank == MAX_DIMS || !number(part, 1u << 30, &size) || !size) return 0;
    tensor->dims[tensor->rank++] = (uint32_t)size;
    elements *= size;
    if (elements > 1u << 30) return 0;
    part = next;
  }
  tensor->elements = (uint32_t)elements;
  return tensor->rank > 0;
}

/* name, dims, layout, dtype, quantization, fl, zero point, scale */
static int read_tensor(struct tensor *tensor, char **fields, int count) {
  memset(tensor, 0, sizeof *tensor);
  if (count != 8 || !word(tensor->name, sizeof tensor->name, fields[0])) return 0;
  if (!read_dims(tensor, fields[1])) return 0;
  tensor->layout = choose(fields[2], LAYOUTS, 4);
  tensor->type = choose(fields[3], TYPES, TYPE_COUNT);
  tensor->quantization = choose(fields[4], QUANTIZATIONS, 3);
  tensor->fl = atoi(fields[5]);
  tensor->zero_point = atoi(fields[6]);
  tensor->scale = strtof(fields[7], NULL);
  tensor->size = tensor->elements * type_bytes(tensor->type);
  return tensor->layout >= 0 && tensor->type >= 0 && tensor->quantization >= 0;
}

static int read_layer(struct layer *layer, char **fields, int count) {
  if (count != 14) return 0;
  memcpy(layer->columns, fields, sizeof layer->columns);
  return number(fields[9], UINT64_MAX / MOST_LAYERS, &layer->us) &&
         number(fields[12], UINT64_MAX / MOST_LAYERS, &layer->kilobytes);
}

static int read_line(struct answers *a, const char *key, char **fields, int count) {
  uint64_t value;
  if (!strcmp(key, "input"))
    return a->n_input < MOST_TENSORS && read_tensor(&a->inputs[a->n_input++], fields, count);
  if (!strcmp(key, "output"))
    return a->n_output < MOST_TENSORS && read_tensor(&a->outputs[a->n_output++], fields, count);
  if (!strcmp(key, "layer"))
    return a->n_layer < MOST_LAYERS && read_layer(&a->layers[a->n_layer++], fields, count);
  if (!strcmp(key, "answer")) {
    if (a->n_answer == MOST_ANSWERS) return 0;
    struct answer *answer = &a->answers[a->n_answer++];
    return count == 3 && word(answer->digest, sizeof answer->digest, fields[0]) &&
           number(fields[1], FILE_LIMIT, &answer->offset) &&
           number(fields[2], FILE_LIMIT, &answer->size);
  }
  if (!strcmp(key, "generation")) {
    if (count != 1 || !number(fields[0], 2, &value)) return 0;
    a->generation = (int)value;
    return value > 0;
  }
  if (!strcmp(key, "run_us")) {
    if (count > MOST_CORES) return 0;
    a->cores = count;
    for (int i = 0; i < count; i++)
      if (!number(fields[i], 3600000000u, &a->run_us[i])) return 0;
    return 1;
  }
  if (!strcmp(key, "memory"))
    return count == 5 && number(fields[0], UINT32_MAX, &a->weight) &&
           number(fields[1], UINT32_MAX, &a->internal) && number(fields[2], INT64_MAX, &a->dma) &&
           number(fields[3], UINT32_MAX, &a->sram) && number(fields[4], UINT32_MAX, &a->sram_free);
  if (count != 1) return 0;
  if (!strcmp(key, "simulated")) return a->simulated = !strcmp(fields[0], "1");
  if (!strcmp(key, "platform")) return word(a->platform, sizeof a->platform, fields[0]);
  if (!strcmp(key, "custom")) return word(a->custom, sizeof a->custom, fields[0]);
  return 0;
}

static int read_header(struct answers *a, uint64_t size) {
  char *line = a->content + sizeof FIRST - 1, *end = a->content + size;
  while (line < end) {
    char *stop = memchr(line, '\n', (size_t)(end - line)), *fields[FIELDS];
    int count = 0;
    if (!stop) return 0;
    *stop = 0;
    if (!strcmp(line, "data")) {
      a->data = stop + 1;
      a->data_size = (uint64_t)(end - a->data);
      return 1;
    }
    for (char *tab = line; (tab = strchr(tab, '\t'));) {
      if (count == FIELDS) return 0;
      *tab++ = 0;
      fields[count++] = tab;
    }
    if (!count || !read_line(a, line, fields, count)) return 0;
    line = stop + 1;
  }
  return 0;
}

static int fits(const struct answers *a) {
  uint64_t whole = 0;
  for (uint32_t i = 0; i < a->n_output; i++) whole += a->outputs[i].size;
  for (uint32_t i = 0; i < a->n_answer; i++)
    if (a->answers[i].size != whole || a->answers[i].offset > a->data_size ||
        whole > a->data_size - a->answers[i].offset)
      return 0;
  return a->generation && a->n_input && a->n_output && a->cores;
}

static char *whole_file(const char *path, uint64_t *size) {
  FILE *file = fopen(path, "rb");
  char *content = NULL;
  long length;
  if (!file) return NULL;
  if (!fseek(file, 0, SEEK_END) && (length = ftell(file)) > 0 && length <= FILE_LIMIT &&
      !fseek(file, 0, SEEK_SET) && (content = malloc((size_t)length + 1))) {
    *size = (uint64_t)length;
    content[length] = 0;
    if (fread(content, 1, (size_t)length, file) != (size_t)length) {
      free(content);
      content = NULL;
    }
  }
  fclose(file);
  return content;
}

struct answers *answers_read(const char *path, const char **why) {
  uint64_t size = 0;
  char *content = whole_file(path, &size);
  struct answers *a = content ? calloc(1, sizeof *a) : NULL;
  *why = "there is no such file";
  if (!a) {
    free(content);
    return NULL;
  }
  a->content = content;
  a->users = 1;
  *why = "it is no file of answers";
  if (size < sizeof FIRST || memcmp(content, FIRST, sizeof FIRST - 1) || !read_header(a, size) ||
      !fits(a)) {
    answers_free(a);
    return NULL;
  }
  return a;
}

void answers_free(struct answers *a) {
  free(a->content);
  free(a);
}
