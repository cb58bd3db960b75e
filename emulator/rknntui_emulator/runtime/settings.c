#define _GNU_SOURCE
#include "standin.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

void own_folder(char *folder, size_t room) {
  Dl_info info;
  folder[0] = 0;
  if (!dladdr((void *)own_folder, &info) || !info.dli_fname) return;
  const char *slash = strrchr(info.dli_fname, '/');
  size_t length = slash ? (size_t)(slash - info.dli_fname) : 0;
  if (!slash || length >= room) return;
  memcpy(folder, info.dli_fname, length);
  folder[length] = 0;
}

int setting(const char *name, char value[SETTING]) {
  char path[PATH_MAX], variable[64], line[SETTING];
  size_t length = strlen(name);
  int found = 0;
  snprintf(variable, sizeof variable, "RKNNTUI_EMULATED_%s", name);
  const char *text = getenv(variable);
  if (text) {
    snprintf(value, SETTING, "%s", text);
    return 1;
  }
  own_folder(path, sizeof path - 16);
  strcat(path, "/emulated.conf");
  FILE *file = fopen(path, "r");
  if (!file) return 0;
  while (!found && fgets(line, sizeof line, file))
    if (!strncmp(line, name, length) && line[length] == '=') {
      line[strcspn(line, "\r\n")] = 0;
      snprintf(value, SETTING, "%s", line + length + 1);
      found = 1;
    }
  fclose(file);
  return found;
}

void answers_folder(char folder[PATH_MAX]) {
  char text[SETTING];
  if (setting("ANSWERS", text)) {
    strcpy(folder, text);
    return;
  }
  own_folder(folder, PATH_MAX - 16);
  strcat(folder, "/answers");
}

int failing(const char *call) {
  return fault ? fault(call) : 0;
}

enum { SLICE_US = 20000, SIZE = MOST_CORES * sizeof(uint64_t) };

static uint64_t *counted;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void map(void) {
  char folder[PATH_MAX], path[PATH_MAX];
  struct stat facts;
  answers_folder(folder);
  if (snprintf(path, sizeof path, "%s/asked/busy", folder) >= (int)sizeof path) return;
  int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return;
  if (!fstat(file, &facts) && facts.st_size >= (off_t)SIZE) {
    void *found = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (found != MAP_FAILED) counted = found;
  }
  close(file);
}

void be_busy(uint64_t us, int cores) {
  pthread_once(&once, map);
  while (us) {
    uint64_t slice = us < SLICE_US ? us : SLICE_US;
    struct timespec left = {0, (long)slice * 1000};
    while (nanosleep(&left, &left)) {
    }
    for (int core = 0; counted && core < MOST_CORES; core++)
      if (cores >> core & 1) __atomic_add_fetch(&counted[core], slice, __ATOMIC_RELAXED);
    us -= slice;
  }
}
