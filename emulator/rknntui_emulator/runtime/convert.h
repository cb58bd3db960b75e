/* Values of tensors: as floats, and bent away from the right ones. */
#ifndef RKNNTUI_CONVERT_H
#define RKNNTUI_CONVERT_H

#include "answers.h"

/* `source` of the tensor's type as floats, dequantized by its parameters. */
void to_floats(const struct tensor *tensor, const void *source, float *target);
/* Change each value: whole numbers by the strength up and down in turn, saturating; real numbers
 * by half of themselves up and down in turn. */
void bend(const struct tensor *tensor, void *values, int strength);

#endif
