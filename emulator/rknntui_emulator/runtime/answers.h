/* What a stand-in answers: read from a file that was made before, see answers.py for its format. */
#ifndef RKNNTUI_ANSWERS_H
#define RKNNTUI_ANSWERS_H

#include <stdint.h>

#include "sha256.h"

enum {
  MOST_TENSORS = 1024, /* of a side; a model for comparing layers has many outputs */
  MOST_LAYERS = 8192,
  MOST_ANSWERS = 65536,
  MOST_CORES = 3,
  MOST_RANK = 16,
  NAME_LENGTH = 256,
};

struct tensor {
  char name[NAME_LENGTH];
  uint32_t rank, dims[MOST_RANK], elements, size;
  int layout, type, quantization, fl, zero_point, layer;
  float scale;
};

struct layer {
  /* id, op, dtype, target, input shapes, output shape, ddr, npu and whole cycles, us, mac usage,
   * workload, kilobytes, name */
  char *columns[14];
  uint64_t us, kilobytes;
};

struct answer {
  char digest[SHA256_HEX]; /* of the inputs, or "*" for any */
  uint64_t offset, size;
};

struct answers {
  int generation, cores, users;
  int simulated; /* results are asked for, see ask.h */
  int fail_code;
  char model[SHA256_HEX]; /* its digest */
  char fail_call[32], platform[32], needs[32], dialect[32], custom[1024];
  uint64_t run_us[MOST_CORES], weight, internal, dma, sram, sram_free;
  uint32_t n_input, n_output, n_layer, n_answer;
  struct tensor *inputs, *outputs;
  struct layer *layers;
  struct answer *answers;
  char *content; /* the file */
  const char *data;
  uint64_t data_size;
};

/* Bytes of an element. */
uint32_t type_bytes(int type);
/* The words for a type and a layout; "?" where there is none. */
const char *type_name(int type);
const char *layout_name(int layout);
/* The file of a path; NULL where it is none, with the reason in `why`. */
struct answers *answers_read(const char *path, const char **why);
void answers_free(struct answers *answers);

#endif
