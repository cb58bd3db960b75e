#define _GNU_SOURCE
#include "runtime.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "board_root.h"

const char *const RUNTIME = "runtime library";

static const char *const TYPES[] = {"FLOAT32", "FLOAT16", "INT8",  "UINT8", "INT16", "UINT16",
                                    "INT32",   "UINT32",  "INT64", "BOOL",  "INT4",  "BFLOAT16"};
static const char *const LAYOUTS[] = {"NCHW", "NHWC", "NC1HWC2", "UNDEFINED"};
static const char *const QUANTIZATIONS[] = {"NONE", "DFP", "AFFINE"};

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static const char *named(const char *const *names, int count, int value, char number[16]) {
  if (value >= 0 && value < count) return names[value];
  snprintf(number, 16, "%d", value);
  return number;
}

static int value_of(const char *const *names, int count, const char *name) {
  for (int i = 0; name && i < count; i++)
    if (!strcmp(names[i], name)) return i;
  return -1;
}

const char *type_name(int type, char number[16]) {
  return named(TYPES, COUNT(TYPES), type, number);
}

const char *layout_name(int layout, char number[16]) {
  return named(LAYOUTS, COUNT(LAYOUTS), layout, number);
}

const char *quantization_name(int quantization, char number[16]) {
  return named(QUANTIZATIONS, COUNT(QUANTIZATIONS), quantization, number);
}

int type_of(const char *name) { return value_of(TYPES, COUNT(TYPES), name); }

int layout_of(const char *name) { return value_of(LAYOUTS, COUNT(LAYOUTS), name); }

uint32_t type_bytes(int type) {
  static const uint8_t bytes[] = {4, 2, 1, 1, 2, 2, 4, 4, 8, 1, 0, 2};
  return type >= 0 && type < COUNT(bytes) ? bytes[type] : 0;
}

const char *error_name(int code) {
  static const char *const names[] = {
      "RKNN_ERR_FAIL",
      "RKNN_ERR_TIMEOUT",
      "RKNN_ERR_DEVICE_UNAVAILABLE",
      "RKNN_ERR_MALLOC_FAIL",
      "RKNN_ERR_PARAM_INVALID",
      "RKNN_ERR_MODEL_INVALID",
      "RKNN_ERR_CTX_INVALID",
      "RKNN_ERR_INPUT_INVALID",
      "RKNN_ERR_OUTPUT_INVALID",
      "RKNN_ERR_DEVICE_UNMATCH",
      "RKNN_ERR_INCOMPATILE_PRE_COMPILE_MODEL",
      "RKNN_ERR_INCOMPATILE_OPTIMIZATION_LEVEL_VERSION",
      "RKNN_ERR_TARGET_PLATFORM_UNMATCH",
      "RKNN_ERR_NON_PRE_COMPILED_MODEL_ON_MINI_DRIVER",
  };
  return code < 0 && code >= -COUNT(names) ? names[-code - 1] : "an unknown error";
}

int fail(struct failure *failure, const char *kind, const char *cause, const char *remedy,
         const char *what, ...) {
  va_list values;
  failure->kind = kind;
  snprintf(failure->cause, sizeof failure->cause, "%s", cause);
  snprintf(failure->remedy, sizeof failure->remedy, "%s", remedy);
  va_start(values, what);
  vsnprintf(failure->what, sizeof failure->what, what, values);
  va_end(values);
  return -1;
}

#define DOCTOR " `rknntui doctor --device DEVICE` compares the versions."

/* What it wrote says more than its code; capitals do not count. */
static const struct {
  int code;
  const char *said, *cause, *remedy;
} WHY[] = {
    {0, "Invalid RKNN model version",
     "The model was built by a newer toolkit than this runtime library reads.",
     "Update the runtime library, or build the model for the older one." DOCTOR},
    {0, "invalid RKNN_MAGIC",
     "The file is no model of this generation of the runtime library, or is damaged.",
     "Build it for this board's chip."},
    {0, "failed to open rknpu",
     "The NPU's driver is not loaded, or its device file may not be opened.",
     "Run as root or as a member of the group render; look for rknpu in dmesg."},
    {-2, NULL, "The NPU did not finish in time: it hangs, or another program uses it.",
     "End other programs of the NPU and try again; if it stays, restart the board."},
    {-3, NULL, "The NPU's driver is not loaded, or its device file may not be opened.",
     "Run as root or as a member of the group render; look for rknpu or galcore in dmesg."},
    {-4, NULL, "The board has not enough memory for this model.",
     "End other programs, or enlarge the memory that is reserved for the NPU (CMA)."},
    {-5, NULL, "The library does not know this call or an argument of it.",
     "It may be older than this program expects." DOCTOR},
    {-6, NULL,
     "The file is no model of this runtime library, was built for a newer one, or is damaged.",
     "Build it for this board and for this version of the library." DOCTOR},
    {-7, NULL, "The context has gone.", "Open the model again."},
    {-8, NULL, "The inputs do not have the size, type or layout of the model's.",
     "Compare them with the attributes that opening the model returned."},
    {-9, NULL, "The outputs cannot be had in this form.", "Ask for them without want_float."},
    {-10, NULL, "The runtime library and the driver of the NPU do not fit each other.",
     "Update both to the versions of one SDK." DOCTOR},
    {-11, NULL, "The model was precompiled for another driver.",
     "Build it again without pre_compile, or for this driver."},
    {-12, NULL, "The optimization level of the model does not fit this driver.",
     "Build it with a lower optimization level, or update the driver."},
    {-13, NULL, "The model was built for another chip.",
     "Build it with this board's chip as target."},
    {-14, NULL, "The board has the mini driver, which takes precompiled models only.",
     "Build the model with pre_compile, or load the full driver."},
};

int check(const struct library *library, const char *call, int code, uint64_t mark,
          struct failure *failure) {
  char said[WORDS];
  const char *cause = "The runtime library gives no reason.";
  const char *remedy = "Look at what it wrote, and at the kernel's log.";
  if (code >= 0) return 0;
  noise_since(mark, said, sizeof said);
  for (int i = 0; i < COUNT(WHY); i++)
    if (WHY[i].said ? strcasestr(said, WHY[i].said) != NULL : WHY[i].code == code) {
      cause = WHY[i].cause;
      remedy = WHY[i].remedy;
      break;
    }
  fail(failure, RUNTIME, cause, remedy, "%s of %s returned %s (%d).", call, library->path,
       error_name(code), code);
  if (*said)
    snprintf(failure->cause, sizeof failure->cause, "%s The library wrote: %s", cause, said);
  return -1;
}

static void add(char *words, size_t room, const char *path, const char *why) {
  size_t used = strlen(words);
  snprintf(words + used, room - used, "%s%s%s%s", used ? "; " : "", path, *why ? ": " : "", why);
}

/* Whether a library's file ends before what is loaded of it does, as after a copy that broke:
 * loading it would end this process. Format: the System V ABI, segments of the kind PT_LOAD. */
static int is_cut_off(const char *path) {
  _Alignas(8) uint8_t head[4096] = {0};
  struct stat facts;
  int cut = 0, file = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t size = file < 0 ? -1 : read(file, head, sizeof head);
  if (size < 64 || memcmp(head, ELFMAG, SELFMAG) || fstat(file, &facts)) size = 0;
  const Elf64_Ehdr *wide = (const void *)head;
  const Elf32_Ehdr *narrow = (const void *)head;
  int is_wide = head[EI_CLASS] == ELFCLASS64;
  if (!is_wide && head[EI_CLASS] != ELFCLASS32) size = 0;
  uint64_t at = is_wide ? wide->e_phoff : narrow->e_phoff, all = size ? (uint64_t)facts.st_size : 0;
  size_t count = is_wide ? wide->e_phnum : narrow->e_phnum;
  size_t each = is_wide ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr);
  for (size_t i = 0; size && !cut && i < count; i++) {
    Elf64_Phdr part;
    Elf32_Phdr short_part;
    cut = at > all || (i + 1) * each > all - at; /* it may be any number */
    if (cut || at + (i + 1) * each > sizeof head) break;
    memcpy(is_wide ? (void *)&part : (void *)&short_part, head + at + i * each, each);
    if (!is_wide)
      part = (Elf64_Phdr){.p_type = short_part.p_type,
                          .p_offset = short_part.p_offset,
                          .p_filesz = short_part.p_filesz};
    cut = part.p_type == PT_LOAD && (part.p_filesz > all || part.p_offset > all - part.p_filesz);
  }
  if (file >= 0) close(file);
  return cut;
}

/* Whether a library is the smallest runtime, by the version that it writes. It exports functions that
 * only fail there (-5, "context config invalid!"; "not supported in mini runtime"), in every release
 * from 1.3.0b0 to 2.3.2: what it exports says nothing. */
static int is_mini(const char *path) {
  static const char mark[] = "librknnmrt version";
  struct stat facts;
  int file = open(path, O_RDONLY | O_CLOEXEC), found = 0;
  if (file < 0) return 0;
  if (!fstat(file, &facts) && facts.st_size > 0) {
    size_t size = (size_t)facts.st_size;
    void *content = mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (content != MAP_FAILED) {
      found = memmem(content, size, mark, sizeof mark - 1) != NULL;
      munmap(content, size);
    }
  }
  close(file);
  return found;
}

static int look(struct library *library, const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  char room[BOARD_PATH];
  void *handle = dlopen(board_to_host(path, room), RTLD_NOW);
  if (!handle) return 0;
  memset(library, 0, sizeof *library);
  library->handle = handle;
  snprintf(library->path, sizeof library->path, "%s", path);
  library->generation = !strncmp(name, "librknn_runtime", 15) || !strcmp(name, "librknn_api.so") ||
                                dlsym(handle, "rknn_inputs_map")
                            ? 1
                            : 2;
#define FIND(name) *(void **)&library->name = dlsym(handle, "rknn_" #name)
  FIND(init);
  FIND(dup_context);
  FIND(destroy);
  FIND(query);
  FIND(inputs_set);
  FIND(set_core_mask);
  FIND(run);
  FIND(outputs_get);
  FIND(outputs_release);
  FIND(create_mem);
  FIND(destroy_mem);
  FIND(set_io_mem);
  FIND(mem_sync);
  if ((library->mini = is_mini(board_to_host(path, room)))) {
    library->dup_context = NULL;
    library->inputs_set = NULL;
    library->outputs_get = NULL;
    library->outputs_release = NULL;
  }
  return 1;
}

/* Also one that only its owner may read. By `open`, as the loader finds it: qemu-user leads that below
 * its root, and `access` not. */
static int is_there(const char *path) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  int there = file >= 0 || (errno != ENOENT && errno != ENOTDIR);
  if (file >= 0) close(file);
  return there;
}

int library_load(struct library *library, const char *const *paths, int generation,
                 struct failure *failure) {
  char tried[WORDS] = "", places[WORDS] = "", other[32], room[BOARD_PATH];
  for (; *paths; paths++) {
    add(places, sizeof places, *paths, "");
    if (!is_there(board_to_host(*paths, room))) continue;
    if (is_cut_off(board_to_host(*paths, room))) {
      add(tried, sizeof tried, *paths, "it is cut off, a part of the file is missing");
      continue;
    }
    if (!look(library, *paths)) {
      const char *why = dlerror();
      add(tried, sizeof tried, *paths, why ? why : "it cannot be loaded");
      continue;
    }
    snprintf(other, sizeof other, "it is of generation %d", library->generation);
    if (!library->init || !library->destroy || !library->query || !library->run)
      add(tried, sizeof tried, *paths, "it lacks functions");
    else if (!generation || generation == library->generation)
      return 0;
    else
      add(tried, sizeof tried, *paths, other);
    dlclose(library->handle);
  }
  memset(library, 0, sizeof *library);
  if (*tried)
    return fail(failure, RUNTIME, sizeof(void *) == 8 ? "This agent has 64 bits." : "It has 32.",
                strstr(tried, "cut off") ? "Copy the library to the board again."
                                         : "Install the library of this board's architecture.",
                "No runtime library of the NPU could be loaded: %s.", tried);
  fail(failure, RUNTIME, "",
       "Install librknnrt.so (generation 2) or librknn_runtime.so (generation 1) of the vendor.",
       "There is no runtime library of the NPU on this board.");
  snprintf(failure->cause, sizeof failure->cause, "None of these exists: %s.", places);
  return -1;
}

/* No thread-local variable: the loader of uClibc-ng 1.0.35 dies of a program that has one. */
static pthread_key_t calls;
static const char *volatile last_call;

void in_call(const char *name) {
  pthread_setspecific(calls, name);
  if (name) last_call = name;
}

static void crashed(int number) {
  static int told;
  /* threads that crash meanwhile wait for the end, which comes with the first */
  while (__atomic_exchange_n(&told, 1, __ATOMIC_SEQ_CST)) pause();
  const char *calling = pthread_getspecific(calls), *name = calling ? calling : last_call;
  const char *parts[] = {"\nThe program crashed ", calling ? "in " : "after ",
                         name ? name : "the start", ".\n"};
  char text[128];
  size_t size = 0;
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    for (const char *c = parts[i]; *c && size < sizeof text; c++) text[size++] = *c;
  noise_tell(text, size);
  signal(number, SIG_DFL);
  raise(number);
}

int tell_crashes(void) {
  static const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
  struct sigaction action = {.sa_handler = crashed, .sa_flags = SA_NODEFER};
  if (pthread_key_create(&calls, NULL)) return 0;
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    sigaction(numbers[i], &action, NULL);
  return 1;
}

int library_init(const struct library *library, const char *model, const void *content,
                 uint32_t size, uint32_t flags, rknn_context *context, struct failure *failure) {
  int (*first)(rknn_context *, const void *, uint32_t, uint32_t);
  int (*second)(rknn_context *, const void *, uint32_t, uint32_t, void *);
  uint64_t mark = noise_mark();
  int code;
  *(void **)&first = *(void **)&second = library->init;
  code = library->generation == 1
             ? IN_CALL("rknn_init", first(context, content, size, flags))
             : IN_CALL("rknn_init", second(context, model, 0, flags, NULL));
  return check(library, "rknn_init", code, mark, failure);
}

int library_query(const struct library *library, rknn_context context, int command, void *info,
                  uint32_t size, struct failure *failure) {
  return CHECKED(library, failure, query, context, command, info, size);
}

int library_attr(const struct library *library, rknn_context context, int output, uint32_t index,
                 struct attr *attr, struct failure *failure) {
  int copies = library->inputs_set != NULL;
  int command = output ? copies ? QUERY_OUTPUT_ATTR : QUERY_NATIVE_NHWC_OUTPUT_ATTR
                : copies ? QUERY_INPUT_ATTR
                         : QUERY_NATIVE_INPUT_ATTR;
  size_t size = library->generation == 1 ? offsetof(struct attr, w_stride) : sizeof *attr;
  memset(attr, 0, sizeof *attr);
  attr->index = index;
  if (library_query(library, context, command, attr, (uint32_t)size, failure)) return -1;
  if (attr->n_dims > MOST_DIMS) attr->n_dims = MOST_DIMS;
  attr->name[sizeof attr->name - 1] = 0;
  if (library->generation == 1) {
    attr->size_with_stride = attr->size;
    for (uint32_t i = 0; i < attr->n_dims / 2; i++) {
      uint32_t other = attr->dims[attr->n_dims - 1 - i];
      attr->dims[attr->n_dims - 1 - i] = attr->dims[i];
      attr->dims[i] = other;
    }
  }
  return 0;
}
