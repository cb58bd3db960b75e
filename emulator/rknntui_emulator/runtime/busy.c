#include "busy.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "context.h"

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
