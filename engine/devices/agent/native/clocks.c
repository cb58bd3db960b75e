#define _GNU_SOURCE
#include "methods.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "board_root.h"
#include "noise.h"

enum { MOST_CLOCKS = 256, MOST_KEPT = 8, VALUE_LIMIT = 4096, KEEP_LIMIT = 1 << 20 };

struct clock {
  char *path, *text; /* what was there before it changed */
  int untouched;
};

struct clocks {
  struct clock all[MOST_CLOCKS];
  int count;
};

/* Paths and reasons that become a result. */
struct outcome {
  struct text changed, refused;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *kept[MOST_KEPT]; /* files of changes that this process made */

static void clocks_free(struct clocks *clocks) {
  for (int i = 0; i < clocks->count; i++) {
    free(clocks->all[i].path);
    free(clocks->all[i].text);
  }
  free(clocks);
}

static int clocks_add(struct clocks *clocks, const char *path, const char *text) {
  struct clock *one = &clocks->all[clocks->count];
  if (clocks->count == MOST_CLOCKS) return 0;
  *one = (struct clock){strdup(path), strdup(text), 0};
  clocks->count++; /* to be freed in any case */
  return one->path && one->text;
}

static int clocks_have(const struct clocks *clocks, int count, const char *path) {
  for (int i = 0; i < count; i++)
    if (!strcmp(clocks->all[i].path, path)) return 1;
  return 0;
}

/* What the file `keep` holds; nothing where it is not there, or is not what was written here. To be
 * freed; NULL with the reason. */
static struct clocks *clocks_read(const char *keep, struct failure *failure) {
  struct clocks *clocks = calloc(1, sizeof *clocks);
  struct document document;
  char room[BOARD_PATH];
  size_t size;
  char *content = read_some(board_to_host(keep, room), KEEP_LIMIT, &size);
  if (!clocks) fail(failure, "device", "", "", "The board has no memory left.");
  if (clocks && content && json_parse(&document, content, size)) {
    if (document.nodes->kind == JSON_ARRAY)
      JSON_EACH(one, &document, document.nodes) {
        const struct node *path = json_first(&document, one);
        const char *text = path ? json_text(json_next(&document, path)) : NULL;
        if (json_text(path) && *json_text(path) == '/' && text)
          if (!clocks_add(clocks, json_text(path), text)) break;
      }
    json_free(&document);
  }
  free(content);
  return clocks;
}

/* One more pair of a list. */
static void add_pair(struct text *text, const char *path, const char *second) {
  text_add(text, text->size && text->bytes[text->size - 1] == ']' ? ",[" : "[");
  text_string(text, path, strlen(path));
  text_add(text, ",");
  text_string(text, second, strlen(second));
  text_add(text, "]");
}

static int clocks_write(const struct clocks *clocks, const char *keep, struct failure *failure) {
  struct text text = {0};
  text_add(&text, "[");
  for (int i = 0; i < clocks->count; i++)
    if (!clocks->all[i].untouched) add_pair(&text, clocks->all[i].path, clocks->all[i].text);
  text_add(&text, "]");
  int bad = text.failed ? fail(failure, "device", "", "", "The board has no memory left.")
                        : write_whole(keep, text.bytes, text.size, failure);
  free(text.bytes);
  return bad;
}

/* Write a value; 0 or why not. What is not there is not adjustable: nothing is made. */
static const char *put(const char *path, const char *text) {
  char line[VALUE_LIMIT + 2], room[BOARD_PATH];
  size_t size = strnlen(text, VALUE_LIMIT);
  memcpy(line, text, size);
  line[size++] = '\n';
  int handle = open(board_to_host(path, room), O_WRONLY | O_TRUNC | O_CLOEXEC);
  int error = handle < 0 || write(handle, line, size) < 0 ? errno : 0;
  if (handle >= 0 && close(handle) && !error) error = errno;
  return error ? strerror(error) : NULL;
}

static void tell(struct outcome *outcome, const char *path, const char *why) {
  if (why) {
    add_pair(&outcome->refused, path, why);
    return;
  }
  text_add(&outcome->changed, outcome->changed.size ? "," : "");
  text_string(&outcome->changed, path, strlen(path));
}

static void tell_all(struct outcome *outcome, struct text *result) {
  int lost = outcome->changed.failed || outcome->refused.failed;
  text_add(result, "{\"changed\":[%s],\"refused\":[%s]}",
           outcome->changed.size ? outcome->changed.bytes : "",
           outcome->refused.size ? outcome->refused.bytes : "");
  if (lost) result->failed = 1;
  free(outcome->changed.bytes);
  free(outcome->refused.bytes);
}

/* A pair of path and text of a request. */
static int pair(const struct document *document, const struct node *node, const char **path,
                const char **text) {
  const struct node *first = node->kind == JSON_ARRAY ? json_first(document, node) : NULL;
  const struct node *second = first ? json_next(document, first) : NULL;
  *path = json_text(first);
  *text = json_text(second);
  return *path && **path == '/' && strlen(*path) < 4000 && *text && !json_next(document, second);
}

/* The value of a node as it is kept: without the blanks around it; NULL where it cannot be read. */
static char *value_of(const char *path) {
  char room[BOARD_PATH], *text;
  size_t size;
  char *content = read_some(board_to_host(path, room), VALUE_LIMIT, &size);
  if (content && (text = trimmed(content))) memmove(content, text, strlen(text) + 1);
  return content;
}

/* Change them one after the other: userspace/set_freq is there once its governor was written. What
 * was there before is in the file before it changes. */
static int change(const struct document *document, const struct node *values, const char *keep,
                  struct clocks *before, struct outcome *outcome, struct failure *failure) {
  int earlier = before->count; /* of a change that was not finished: the real ones */
  const char *path, *text;
  JSON_EACH(one, document, values) {
    pair(document, one, &path, &text);
    char *old = value_of(path);
    if (!old) {
      tell(outcome, path, "it cannot be read");
      continue;
    }
    int known = clocks_have(before, before->count, path);
    int added = known || clocks_add(before, path, old);
    free(old);
    if (!added) return fail(failure, "device", "", "", "These are too many clocks.");
    if (!known && clocks_write(before, keep, failure)) return -1;
    const char *why = put(path, text);
    tell(outcome, path, why);
    for (int i = earlier; why && i < before->count; i++)
      if (!strcmp(before->all[i].path, path)) before->all[i].untouched = 1;
  }
  return clocks_write(before, keep, failure);
}

static int remember(const char *keep) {
  int free_place = -1;
  for (int i = 0; i < MOST_KEPT; i++) {
    if (kept[i] && !strcmp(kept[i], keep)) return 1;
    if (!kept[i]) free_place = i;
  }
  return free_place >= 0 && (kept[free_place] = strdup(keep));
}

int method_write_clocks(struct request *request, struct text *result, struct failure *failure) {
  const struct document *document = &request->document;
  const struct node *values = json_get(document, request->params, "values");
  const char *keep = path_of(json_get(document, request->params, "keep"), failure);
  const char *path, *text;
  if (!keep) return -1;
  int whole = values && values->kind == JSON_ARRAY;
  for (const struct node *one = json_first(document, values); whole && one;
       one = json_next(document, one))
    whole = pair(document, one, &path, &text);
  if (!whole)
    return fail(failure, "device", "", "", "`write_clocks` takes pairs of path and text.");
  struct outcome outcome = {0};
  pthread_mutex_lock(&lock);
  struct clocks *before = clocks_read(keep, failure);
  int bad = !before || clocks_write(before, keep, failure);
  if (!bad && !remember(keep)) bad = fail(failure, "device", "", "", "These are too many files.");
  if (!bad) bad = change(document, values, keep, before, &outcome, failure);
  pthread_mutex_unlock(&lock);
  if (before) clocks_free(before);
  tell_all(&outcome, result);
  return bad;
}

/* Write back what the file holds, last first; it stays with what was refused. */
static int restore(const char *keep, struct outcome *outcome, struct failure *failure) {
  struct clocks *before = clocks_read(keep, failure);
  char room[BOARD_PATH];
  int left = 0, bad = 0;
  if (!before) return -1;
  for (int i = before->count - 1; i >= 0; i--) {
    struct clock *one = &before->all[i];
    const char *why = put(one->path, one->text);
    tell(outcome, one->path, why);
    one->untouched = !why; /* there is nothing left to restore */
    left += !!why;
  }
  if (left)
    bad = clocks_write(before, keep, failure);
  else
    unlink(board_to_host(keep, room));
  clocks_free(before);
  for (int i = 0; !bad && i < MOST_KEPT; i++)
    if (kept[i] && !strcmp(kept[i], keep)) {
      free(kept[i]);
      kept[i] = NULL;
    }
  return bad;
}

int method_restore_clocks(struct request *request, struct text *result, struct failure *failure) {
  const char *keep = path_of(json_get(&request->document, request->params, "keep"), failure);
  struct outcome outcome = {0};
  if (!keep) return -1;
  pthread_mutex_lock(&lock);
  int bad = restore(keep, &outcome, failure);
  pthread_mutex_unlock(&lock);
  tell_all(&outcome, result);
  return bad;
}

void restore_clocks(void) {
  struct failure failure;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < MOST_KEPT; i++) {
    struct outcome outcome = {0};
    struct text unheard = {0};
    char *keep = kept[i] ? strdup(kept[i]) : NULL;
    if (keep) restore(keep, &outcome, &failure);
    tell_all(&outcome, &unheard);
    free(unheard.bytes);
    free(keep);
  }
  pthread_mutex_unlock(&lock);
}
