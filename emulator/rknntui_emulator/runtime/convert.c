#include "convert.h"

#include <math.h>
#include <string.h>

#include "facts.h"

static float from_half(uint16_t half) {
  uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, rest = half & 1023;
  float value;
  if (exponent == 0) {
    value = ldexpf((float)rest, -24);
    return sign ? -value : value;
  }
  uint32_t bits = sign | (exponent == 31 ? 255 : exponent + 112) << 23 | rest << 13;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static int64_t whole(const struct tensor *tensor, const void *source, uint32_t i) {
  switch (tensor->type) {
    case TYPE_INT8:
      return ((const int8_t *)source)[i];
    case TYPE_UINT8:
    case TYPE_BOOL:
      return ((const uint8_t *)source)[i];
    case TYPE_INT16:
      return ((const int16_t *)source)[i];
    case TYPE_UINT16:
      return ((const uint16_t *)source)[i];
    case TYPE_INT32:
      return ((const int32_t *)source)[i];
    case TYPE_UINT32:
      return ((const uint32_t *)source)[i];
    default:
      return ((const int64_t *)source)[i];
  }
}

void to_floats(const struct tensor *tensor, const void *source, float *target) {
  for (uint32_t i = 0; i < tensor->elements; i++) {
    if (tensor->type == TYPE_FLOAT32)
      target[i] = ((const float *)source)[i];
    else if (tensor->type == TYPE_FLOAT16)
      target[i] = from_half(((const uint16_t *)source)[i]);
    else if (tensor->quantization == QUANTIZATION_AFFINE)
      target[i] = (float)(whole(tensor, source, i) - tensor->zero_point) * tensor->scale;
    else if (tensor->quantization == QUANTIZATION_DFP)
      target[i] = ldexpf((float)whole(tensor, source, i), -tensor->fl);
    else
      target[i] = (float)whole(tensor, source, i);
  }
}

static int64_t within(int64_t value, int64_t least, int64_t most) {
  return value < least ? least : value > most ? most : value;
}

void bend(const struct tensor *tensor, void *values, int strength) {
  for (uint32_t i = 0; i < tensor->elements; i++) {
    int64_t step = i % 2 ? -strength : strength;
    switch (tensor->type) {
      case TYPE_FLOAT32:
        ((float *)values)[i] *= i % 2 ? 0.5f : 1.5f;
        break;
      case TYPE_FLOAT16: { /* one up or down in the exponent is twice or half */
        uint16_t *half = (uint16_t *)values + i;
        int exponent = *half >> 10 & 31;
        if (exponent > 1 && exponent < 30) *half = (uint16_t)(*half + (i % 2 ? -1024 : 512));
        break;
      }
      case TYPE_INT8:
        ((int8_t *)values)[i] = (int8_t)within(((int8_t *)values)[i] + step, -128, 127);
        break;
      case TYPE_UINT8:
        ((uint8_t *)values)[i] = (uint8_t)within(((uint8_t *)values)[i] + step, 0, 255);
        break;
      case TYPE_BOOL:
        ((uint8_t *)values)[i] ^= 1;
        break;
      case TYPE_INT16:
        ((int16_t *)values)[i] = (int16_t)within(((int16_t *)values)[i] + step, -32768, 32767);
        break;
      case TYPE_UINT16:
        ((uint16_t *)values)[i] = (uint16_t)within(((uint16_t *)values)[i] + step, 0, 65535);
        break;
      case TYPE_INT32:
      case TYPE_UINT32:
        ((uint32_t *)values)[i] += (uint32_t)step;
        break;
      default:
        ((uint64_t *)values)[i] += (uint64_t)step;
    }
  }
}
