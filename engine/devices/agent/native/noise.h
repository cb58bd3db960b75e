/* What libraries write to stdout and stderr: kept for an error's text, and passed on to stderr. */
#ifndef RKNNTUI_NOISE_H
#define RKNNTUI_NOISE_H

#include <stddef.h>
#include <stdint.h>

/* Put a pipe in the place of descriptors 1 and 2, and read it by a thread; 0 where it failed. */
int noise_start(void);
/* A place in what was written. */
uint64_t noise_mark(void);
/* Tell the other end, behind what libraries wrote; from a signal's handler, too. */
void noise_tell(const char *text, size_t size);
/* A text without the blanks around it, which is cut at its end. */
char *trimmed(char *text);
/* The last lines after a mark, as one. */
void noise_since(uint64_t mark, char *words, size_t room);

#endif
