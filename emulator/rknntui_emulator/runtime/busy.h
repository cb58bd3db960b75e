/* What the load of the NPU is told from: microseconds that each core was busy, in the file `busy` of
 * the folder where the emulator is asked. */
#ifndef RKNNTUI_BUSY_H
#define RKNNTUI_BUSY_H

#include <stdint.h>

/* Take the time of a run on these cores, a bit for each. */
void be_busy(uint64_t us, int cores);

#endif
