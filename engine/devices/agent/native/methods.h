/* What the agent is asked to do. */
#ifndef RKNNTUI_METHODS_H
#define RKNNTUI_METHODS_H

#include "json.h"
#include "runtime.h"

struct request {
  int64_t number; /* -1: of one-shot mode */
  const char *method;
  const struct node *params;
  struct document document;
  char *line;
  volatile int cancelled;
  int beside; /* answered by a thread of its own */
  struct request *next;
};

/* Whether a method is answered at once, whatever the NPU does. */
int method_is_quick(const char *method);
/* 0 with the JSON of the result; or -1 with the reason. */
int method_call(struct request *request, struct text *result, struct failure *failure);
/* Send members of an object as progress; agent.c. */
void request_progress(struct request *request, const char *members);

/* A whole file, to be freed; NULL with the reason. */
char *read_whole(const char *path, uint32_t limit, uint32_t *size, struct failure *failure);
/* Write a file under another name and rename it: 0; or -1 with the reason. */
int write_whole(const char *path, const void *bytes, size_t size, struct failure *failure);

/* The first bytes of a file, with a NUL behind them, to be freed; NULL for what is no file or cannot
 * be read. `real` is a path of this machine, see board_root.h. */
char *read_some(const char *real, size_t limit, size_t *size);

/* An absolute path of the parameters; NULL with the reason. */
const char *path_of(const struct node *node, struct failure *failure);

int method_read(struct request *request, struct text *result, struct failure *failure);
int method_watch(struct request *request, struct text *result, struct failure *failure);
int method_digest(struct request *request, struct text *result, struct failure *failure);
/* Write `values`, pairs of path and text, in their order; the file `keep` holds what was there
 * before. Values that an earlier, unfinished change left in it stay. */
int method_write_clocks(struct request *request, struct text *result, struct failure *failure);
/* Write back what the file `keep` holds. */
int method_restore_clocks(struct request *request, struct text *result, struct failure *failure);
/* Write back whatever was changed here, before the end of the process. */
void restore_clocks(void);

#endif
