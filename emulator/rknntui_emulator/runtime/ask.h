/* Asks the emulator for what is not among the answers, and waits for it; see simulated/requests.py. */
#ifndef RKNNTUI_ASK_H
#define RKNNTUI_ASK_H

#include <stdint.h>

#include "context.h"

enum { WHY = 1024 };

/* Whether somebody answers in a folder of answers. */
int watched(const char *folder);
/* Have the file of answers of a model made: of its path (size 0), or of its bytes. Whether it was;
 * else the reason is in `why`. */
int ask_for_model(const char *folder, const char *digest, const void *model, uint32_t size,
                  char why[WHY]);
/* Have the result of the inputs of a context made, in the file `name` of the folder. */
int ask_for_result(const char *folder, const struct context *context, const char *name,
                   char why[WHY]);

#endif
