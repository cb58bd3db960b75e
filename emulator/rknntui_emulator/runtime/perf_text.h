/* The performance text of a run, in the form of a version of the library. */
#ifndef RKNNTUI_PERF_TEXT_H
#define RKNNTUI_PERF_TEXT_H

#include <stdint.h>

#include "answers.h"

/* The text for `version` ("2.3.2"), to be freed; NULL without memory. The answers may name another
 * dialect: "1" (generation 1), "1.5" (to 1.5.x), "1.6" (since). */
char *perf_text(const struct answers *answers, const char *version, uint64_t run_us);

#endif
