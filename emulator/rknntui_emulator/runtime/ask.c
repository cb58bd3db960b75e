#define _GNU_SOURCE
#include "standin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

static const char FIRST[] = "rknntui ask 1\n";
/* less than who waits for rknn_init and for a run gives them */
enum { MODEL_SECONDS = 100, RESULT_SECONDS = 50, LOOK_MS = 5, LOOKS_BETWEEN = 100 };

struct ask {
  char place[PATH_MAX]; /* folder, number: without ".ask" at its end */
  FILE *file;
};

/* The emulator holds a lock, which goes with it however it ends. */
int watched(const char *folder) {
  char path[PATH_MAX];
  if (snprintf(path, sizeof path, "%s/asked/watched", folder) >= (int)sizeof path) return 0;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  int taken = flock(file, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
  close(file);
  return taken;
}

static const char *named(const struct ask *ask, const char *ending, char path[PATH_MAX]) {
  if (snprintf(path, PATH_MAX, "%s.%s", ask->place, ending) >= PATH_MAX) path[0] = 0;
  return path;
}

static int begin(struct ask *ask, const char *folder, char why[WHY]) {
  static unsigned count;
  char path[PATH_MAX];
  unsigned number = __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
  snprintf(why, WHY, "no emulator is there to ask");
  if (!watched(folder)) return 0;
  snprintf(why, WHY, "the simulator cannot be asked");
  if (snprintf(ask->place, PATH_MAX, "%s/asked/%ld-%u", folder, (long)getpid(), number) >=
      PATH_MAX - 16)
    return 0;
  unlink(named(ask, "done", path)); /* of a process of that number before */
  ask->file = fopen(named(ask, "part", path), "wb");
  return ask->file && fputs(FIRST, ask->file) >= 0;
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The answer: an empty file, or the reason why there is none. */
static int answered(const struct ask *ask, char why[WHY]) {
  char path[PATH_MAX];
  FILE *file = fopen(named(ask, "done", path), "rb");
  if (!file) return 0;
  size_t size = fread(why, 1, WHY - 1, file);
  why[size] = 0;
  fclose(file);
  unlink(path);
  return 1;
}

static int finish(struct ask *ask, const char *folder, int limit, char why[WHY]) {
  char part[PATH_MAX], path[PATH_MAX], text[SETTING];
  int failed = ferror(ask->file);
  failed |= fclose(ask->file);
  ask->file = NULL;
  if (failed || rename(named(ask, "part", part), named(ask, "ask", path))) {
    unlink(part);
    return 0;
  }
  if (setting("WAIT", text)) limit = atoi(text);
  double end = seconds() + limit;
  for (int look = 1; !answered(ask, why); look++) {
    struct timespec pause = {0, LOOK_MS * 1000000};
    nanosleep(&pause, NULL);
    int gone = look % LOOKS_BETWEEN == 0 && !watched(folder);
    if (!gone && seconds() < end) continue;
    if (answered(ask, why)) break; /* it came in the meantime */
    unlink(path);
    unlink(named(ask, "done", part));
    if (gone)
      snprintf(why, WHY, "the emulator has ended");
    else
      snprintf(why, WHY, "the simulator was not done within %d s; try again", limit);
    return 0;
  }
  return !*why;
}

static void drop_part(struct ask *ask) {
  char path[PATH_MAX];
  if (ask->file) {
    fclose(ask->file);
    unlink(named(ask, "part", path));
  }
}

/* The bytes of a model as a file beside the request. */
static const char *as_file(const struct ask *ask, const void *model, uint32_t size,
                           char path[PATH_MAX]) {
  FILE *file = fopen(named(ask, "model", path), "wb");
  int failed = !file || fwrite(model, 1, size, file) != size;
  if (file) failed |= fclose(file);
  if (!failed) return path;
  unlink(path);
  return NULL;
}

int ask_for_model(const char *folder, const char *digest, const void *model, uint32_t size,
                  char why[WHY]) {
  struct ask ask = {0};
  char room[PATH_MAX];
  int done = 0;
  if (begin(&ask, folder, why)) {
    const char *path = size ? as_file(&ask, model, size, room) : realpath(model, room);
    if (path && !strpbrk(path, "\t\n")) {
      fprintf(ask.file, "model\t%s\t%s\ndata\n", digest, path);
      done = finish(&ask, folder, MODEL_SECONDS, why);
    }
    if (path && size) unlink(path);
  }
  drop_part(&ask);
  return done;
}

int ask_for_result(const char *folder, const struct context *context, const char *name,
                   char why[WHY]) {
  struct ask ask = {0};
  const struct answers *answers = context->answers;
  int done = 0;
  if (begin(&ask, folder, why)) {
    fprintf(ask.file, "run\t%s\t%s\t%s\n", answers->model, name, context->bend);
    for (uint32_t i = 0; i < answers->n_input; i++) {
      const struct form *form = &context->forms[i];
      fprintf(ask.file, "input\t%s\t%s\t%d\t%llu\n", type_name(form->type),
              layout_name(form->layout), form->pass_through,
              (unsigned long long)context->sizes[i]);
    }
    fputs("data\n", ask.file);
    for (uint32_t i = 0; i < answers->n_input; i++)
      fwrite(context->inputs[i], 1, context->sizes[i], ask.file);
    done = finish(&ask, folder, RESULT_SECONDS, why);
  }
  drop_part(&ask);
  return done;
}
