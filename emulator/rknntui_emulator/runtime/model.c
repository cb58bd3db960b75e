#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "board_root.h"
#include "standin.h"

static struct answers *by_digest(const char *digest, const char **why) {
  char folder[PATH_MAX], path[PATH_MAX];
  answers_folder(folder);
  *why = "the path of the folder of answers is too long";
  if (snprintf(path, sizeof path, "%s/%s.answers", folder, digest) >= (int)sizeof path) return NULL;
  return answers_read(path, why);
}

static int digest_file(const char *path, char digest[SHA256_HEX], char magic[4]) {
  struct sha256 hash;
  char block[1 << 16];
  size_t size, whole = 0;
  FILE *file = fopen(path, "rb");
  if (!file) return 0;
  sha256_begin(&hash);
  while ((size = fread(block, 1, sizeof block, file))) {
    if (!whole) memcpy(magic, block, size < 4 ? size : 4);
    sha256_add(&hash, block, size);
    whole += size;
  }
  fclose(file);
  sha256_end(&hash, digest);
  return 1;
}

struct answers *load(const void *model, uint32_t size, int *code) {
  char digest[SHA256_HEX], magic[4] = {0}, path[PATH_MAX], room[BOARD_PATH], text[SETTING];
  char reason[WHY];
  const char *why = "";
  struct answers *answers = NULL;
  *code = ERR_MODEL_INVALID;
  if (!size) model = board_to_host(model, room);
  if (size) {
    struct sha256 hash;
    sha256_begin(&hash);
    sha256_add(&hash, model, size);
    sha256_end(&hash, digest);
    memcpy(magic, model, size < 4 ? size : 4);
  } else if (!digest_file(model, digest, magic)) {
    fprintf(stderr, "E RKNN: emulated: the model cannot be opened\n");
    *code = ERR_FAIL;
    return NULL;
  }
  if (memcmp(magic, "RKNN", 4)) {
    fprintf(stderr, "E RKNN: parseRKNN: invalid RKNN_MAGIC!\n");
    return NULL;
  }
  if (!size && snprintf(path, sizeof path, "%s.answers", (const char *)model) < (int)sizeof path)
    answers = answers_read(path, &why);
  if (!answers) answers = by_digest(digest, &why);
  answers_folder(path);
  if (!answers && watched(path)) {
    why = reason;
    if (ask_for_model(path, digest, model, size, reason)) answers = by_digest(digest, &why);
  }
  if (!answers) {
    fprintf(stderr, "E RKNN: emulated: no answers for this model: %s\n", why);
    return NULL;
  }
  strcpy(answers->model, digest);
  *code = 0;
  if (answers->generation != GENERATION) {
    fprintf(stderr, "E RKNN: parseRKNN: invalid RKNN_MAGIC!\n");
    *code = ERR_MODEL_INVALID;
  } else if (*answers->platform && setting("PLATFORM", text) && strcmp(text, answers->platform)) {
    fprintf(stderr, "E RKNN: the model's target platform %s is not %s\n", answers->platform, text);
    *code = ERR_TARGET_PLATFORM_UNMATCH;
  }
  if (*code) {
    answers_free(answers);
    return NULL;
  }
  return answers;
}
