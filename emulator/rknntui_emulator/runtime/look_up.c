#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "standin.h"

static void add_input(struct sha256 *hash, const struct context *context, uint32_t i) {
  uint8_t length[8];
  for (int b = 0; b < 8; b++) length[b] = (uint8_t)(context->sizes[i] >> (8 * b));
  sha256_add(hash, length, sizeof length);
  sha256_add(hash, context->inputs[i], context->sizes[i]);
}

static const struct answer *prepared(const struct context *context) {
  const struct answers *answers = context->answers;
  char digest[SHA256_HEX];
  struct sha256 hash;
  sha256_begin(&hash);
  for (uint32_t i = 0; i < answers->n_input; i++) add_input(&hash, context, i);
  sha256_end(&hash, digest);
  for (uint32_t i = 0; i < answers->n_answer; i++)
    if (!strcmp(answers->answers[i].digest, digest)) return &answers->answers[i];
  for (uint32_t i = 0; i < answers->n_answer; i++)
    if (!strcmp(answers->answers[i].digest, "*")) return &answers->answers[i];
  return NULL;
}

/* The name of a result: of the model, its inputs with what they are, and how layers are bent. */
static void result_name(const struct context *context, char name[PATH_MAX]) {
  char digest[SHA256_HEX], text[64];
  struct sha256 hash;
  sha256_begin(&hash);
  for (uint32_t i = 0; i < context->answers->n_input; i++) {
    const struct form *form = &context->forms[i];
    add_input(&hash, context, i);
    int size = snprintf(text, sizeof text, "%s %s %d\n", type_name(form->type),
                        layout_name(form->layout), form->pass_through);
    sha256_add(&hash, text, (size_t)size);
  }
  sha256_add(&hash, context->bend, strlen(context->bend));
  sha256_end(&hash, digest);
  snprintf(name, PATH_MAX, "%.32s-%.32s.result", context->answers->model, digest);
}

static char *read_result(const struct context *context, const char *folder, const char *name) {
  char path[PATH_MAX], beyond;
  uint64_t size = 0;
  for (uint32_t i = 0; i < context->answers->n_output; i++) size += context->answers->outputs[i].size;
  if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) return NULL;
  FILE *file = fopen(path, "rb");
  char *result = file ? malloc(size) : NULL;
  if (result && (fread(result, 1, size, file) != size || fread(&beyond, 1, 1, file))) {
    free(result);
    result = NULL;
  }
  if (file) fclose(file);
  return result;
}

/* Have the result of the inputs; else the reason is in `why`. */
static int have_result(struct context *context, char why[WHY]) {
  char folder[PATH_MAX], name[PATH_MAX], bend[SETTING];
  if (!setting("BEND", bend)) bend[0] = 0;
  int same = !strcmp(bend, context->bend);
  why[0] = 0;
  if (context->result && same) return 1;
  if (context->refused && same) snprintf(why, WHY, "%s", context->refused);
  free(context->result);
  free(context->refused);
  context->result = context->refused = NULL;
  if (why[0]) return 0;
  strcpy(context->bend, bend);
  answers_folder(folder);
  result_name(context, name);
  context->result = read_result(context, folder, name);
  if (!context->result && ask_for_result(folder, context, name, why)) {
    context->result = read_result(context, folder, name);
    snprintf(why, WHY, "the result is not the one that was asked for");
  }
  return context->result != NULL;
}

static int simulated(struct context *context) {
  char why[WHY];
  if (have_result(context, why)) return 0;
  fprintf(stderr, "E RKNN: emulated: no answer for this input: %s\n", why);
  return ERR_FAIL;
}

void look_up_early(struct context *context) {
  char why[WHY];
  for (uint32_t i = 0; i < context->answers->n_input; i++)
    if (!context->inputs[i]) return;
  if (context->answers->simulated && !have_result(context, why)) context->refused = strdup(why);
}

int look_up(struct context *context) {
  for (uint32_t i = 0; i < context->answers->n_input; i++)
    if (!context->inputs[i]) return ERR_INPUT_INVALID;
  if (context->answers->simulated) return simulated(context);
  if (!context->answer) context->answer = prepared(context);
  if (context->answer) return 0;
  fprintf(stderr, "E RKNN: emulated: no answer was made for this input\n");
  return ERR_INPUT_INVALID;
}
