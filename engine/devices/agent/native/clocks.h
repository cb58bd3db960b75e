/* Governors and frequencies that are changed, and their values before, which a file keeps. */
#ifndef RKNNTUI_CLOCKS_H
#define RKNNTUI_CLOCKS_H

#include "methods.h"

/* Write `values`, pairs of path and text, in their order; the file `keep` holds what was there
 * before. Values that an earlier, unfinished change left in it stay. */
int method_write_clocks(struct request *request, struct text *result, struct failure *failure);
/* Write back what the file `keep` holds. */
int method_restore_clocks(struct request *request, struct text *result, struct failure *failure);
/* Write back whatever was changed here, before the end of the process. */
void restore_clocks(void);

#endif
