/* What the parts of a stand-in have in common: answers, contexts, settings, what it asks for. */
#ifndef RKNNTUI_STANDIN_H
#define RKNNTUI_STANDIN_H

#include <limits.h>

#include "facts.h"
#include "sha256.h"

#define API __attribute__((visibility("default")))

enum {
  MOST_TENSORS = 1024, /* of a side; a model for comparing layers has many outputs */
  MOST_LAYERS = 8192,
  MOST_ANSWERS = 65536,
  MOST_CORES = 3,
  SETTING = 512,
  WHY = 1024,
};

/* --- answers.c: what it answers, read from a file that was made before; answers.py has its format */

struct tensor {
  char name[MAX_NAME];
  uint32_t rank, dims[MAX_DIMS], elements, size;
  int layout, type, quantization, fl, zero_point;
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
  int simulated;          /* results are asked for, see ask.c */
  char model[SHA256_HEX]; /* its digest */
  char platform[32], custom[1024];
  uint64_t run_us[MOST_CORES], weight, internal, dma, sram, sram_free;
  uint32_t n_input, n_output, n_layer, n_answer;
  struct tensor inputs[MOST_TENSORS], outputs[MOST_TENSORS];
  struct layer layers[MOST_LAYERS];
  struct answer answers[MOST_ANSWERS]; /* the pages that nobody writes take no room */
  char *content;                       /* the file */
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

/* --- settings.c: RKNNTUI_EMULATED_<name>, or a line <name>=<value> of the file `emulated.conf` beside
 * the library, which may change while it runs */

/* Whether there is a setting of this name; its text goes to `value`. */
int setting(const char *name, char value[SETTING]);
/* The folder of the library, without a slash at the end. */
void own_folder(char *folder, size_t room);
/* The folder of answers: the setting ANSWERS, or "answers" beside this library. */
void answers_folder(char folder[PATH_MAX]);
/* The version that the library says it is. */
void version(char text[SETTING]);
/* A test's library has it: hang, crash, or the negative code that a call shall return; else 0. */
__attribute__((weak)) int fault(const char *call);
int failing(const char *call);
/* Take the time of a run on these cores, a bit for each. Microseconds that each core was busy are in
 * the file `busy` of the folder where the emulator is asked: what the load of the NPU is told from. */
void be_busy(uint64_t us, int cores);

/* --- context.c: a model's answers, the inputs that are set, and the last run */

/* What the bytes of an input are. */
struct form {
  int type, layout, pass_through;
};

struct context {
  struct answers *answers;
  uint32_t flags;
  int core_mask, ran, number;
  char *inputs[MOST_TENSORS], *perf;
  uint64_t sizes[MOST_TENSORS], run_us;
  struct form forms[MOST_TENSORS];
  /* where results are simulated: the outputs, one behind the other, or why there are none, which the
   * next run says; and how they were bent */
  char *result, *refused, bend[SETTING];
#if GENERATION == 2
  /* memory of the NPU, and how its inputs are to be read */
  rknn_tensor_mem *in_memory[MOST_TENSORS], *out_memory[MOST_TENSORS];
  rknn_tensor_attr in_attrs[MOST_TENSORS], out_attrs[MOST_TENSORS];
#endif
  const struct answer *answer;
};

/* The context of a handle; NULL where it has gone. */
struct context *find(rknn_context handle);
/* A handle for a context of these answers, which it uses from now on; 0 where none is left. */
rknn_context keep(struct answers *answers, uint32_t flags);
/* Free the context of a handle. */
void drop(rknn_context handle, struct context *context);
/* One more user of answers, and one less. */
void share(struct answers *answers);
void release(struct answers *answers);
/* Copy the bytes of an input. */
int put_input(struct context *context, uint32_t index, const void *bytes, uint64_t size,
              struct form form);
/* The bytes of an output; its tensor has room for them at `target`. */
void fill(const struct context *context, uint32_t index, void *target);

/* --- look_up.c, model.c: the answer for a context's inputs, and for a model */

/* Have the answer for the inputs that are set, see answers.py for their digest; else the code of
 * rknn_run, with the reason on the way of errors. */
int look_up(struct context *context);
/* Have a simulated answer made before the run that wants it, which then says what failed. */
void look_up_early(struct context *context);
/* The answers of a model: its path (size 0) or its bytes; else NULL and the code of rknn_init. */
struct answers *load(const void *model, uint32_t size, int *code);

/* --- ask.c: asks the emulator for what is not among the answers, and waits; see requests.py */

/* Whether somebody answers in a folder of answers. */
int watched(const char *folder);
/* Have the file of answers of a model made: of its path (size 0), or of its bytes. Whether it was;
 * else the reason is in `why`. */
int ask_for_model(const char *folder, const char *digest, const void *model, uint32_t size,
                  char why[WHY]);
/* Have the result of the inputs of a context made, in the file `name` of the folder. */
int ask_for_result(const char *folder, const struct context *context, const char *name,
                   char why[WHY]);

/* --- perf_text.c: the performance text of a run, to be freed; NULL without memory */

/* In the form of generation 1, or of generation 2 since 1.6. */
char *perf_text(const struct answers *answers, uint64_t run_us);

#if GENERATION == 2
/* --- memory.c: take the inputs out of the memory of the NPU, and put the outputs into it */
int gather(struct context *context);
void scatter(struct context *context);
#endif

#endif
