#define _GNU_SOURCE
#include "noise.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { KEPT = 1 << 14, CHUNK = 4096, LINES = 3, SHOWN = 800, LAST_MS = 2000 };

static char tail[KEPT];
static uint64_t seen;
static int reads = -1, real = -1;
static int passing; /* whether what was read is on its way */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void keep(const char *data, size_t size) {
  for (size_t i = 0; i < size; i++) tail[seen++ % KEPT] = data[i];
}

static void drain(void) {
  char data[CHUNK];
  ssize_t size;
  pthread_mutex_lock(&lock);
  __atomic_store_n(&passing, 1, __ATOMIC_SEQ_CST);
  while ((size = read(reads, data, sizeof data)) > 0) {
    struct pollfd ready = {real, POLLOUT, 0};
    keep(data, (size_t)size);
    /* nobody keeps a library waiting: what does not fit is left out */
    if (poll(&ready, 1, 0) == 1 && ready.revents & POLLOUT && write(real, data, (size_t)size) < 0)
      continue;
  }
  __atomic_store_n(&passing, 0, __ATOMIC_SEQ_CST);
  pthread_mutex_unlock(&lock);
}

static void *follow(void *nothing) {
  struct pollfd ready = {reads, POLLIN, 0};
  while (poll(&ready, 1, -1) >= 0) drain();
  return nothing;
}

int noise_start(void) {
  int ends[2];
  pthread_t thread;
  if (pipe2(ends, O_CLOEXEC)) return 0;
  reads = ends[0];
  real = dup(2);
  if (real < 0 || fcntl(reads, F_SETFL, O_NONBLOCK) || dup2(ends[1], 1) < 0 || dup2(ends[1], 2) < 0)
    return 0;
  setvbuf(stdout, NULL, _IOLBF, 0); /* a pipe gets whole blocks otherwise, and a crash loses them */
  return !pthread_create(&thread, NULL, follow, NULL);
}

void noise_tell(const char *text, size_t size) {
  /* a handler cannot take the lock: it waits until the thread has passed on what came before */
  struct timespec pause = {0, 1000000};
  for (int i = 0, left = 0; reads >= 0 && i < LAST_MS; i++) {
    if (!ioctl(reads, FIONREAD, &left) && !left && !__atomic_load_n(&passing, __ATOMIC_SEQ_CST))
      break;
    nanosleep(&pause, NULL);
  }
  if (write(real < 0 ? 2 : real, text, size) < 0) return;
}

uint64_t noise_mark(void) {
  drain();
  pthread_mutex_lock(&lock);
  uint64_t mark = seen;
  pthread_mutex_unlock(&lock);
  return mark;
}

char *trimmed(char *text) {
  char *end = text + strlen(text);
  while (end > text && strchr(" \t\r\n", end[-1])) *--end = 0;
  while (*text && strchr(" \t\r\n", *text)) text++;
  return text;
}

void noise_since(uint64_t mark, char *words, size_t room) {
  char text[KEPT + 1], joined[KEPT + 16];
  drain();
  pthread_mutex_lock(&lock);
  uint64_t from = seen - mark > KEPT ? seen - KEPT : mark, size = seen - from;
  for (uint64_t i = 0; i < size; i++) text[i] = tail[(from + i) % KEPT];
  pthread_mutex_unlock(&lock);
  text[size] = 0;
  char *lines[LINES], *rest, *line = strtok_r(text, "\n", &rest);
  int count = 0;
  for (; line; line = strtok_r(NULL, "\n", &rest)) {
    if (!*(line = trimmed(line))) continue;
    if (count == LINES) memmove(lines, lines + 1, sizeof *lines * (LINES - 1));
    lines[count < LINES ? count++ : LINES - 1] = line;
  }
  /* from the last one back, as much as is shown */
  char *first = joined + sizeof joined - 1, *at = first;
  *at = 0;
  for (int i = count - 1; i >= 0; i--) {
    const char *between = i < count - 1 ? " / " : "";
    at -= strlen(between);
    memcpy(at, between, strlen(between));
    at -= strlen(lines[i]);
    memcpy(at, lines[i], strlen(lines[i]));
  }
  size_t shown = room - 1 < SHOWN ? room - 1 : SHOWN;
  if ((size_t)(first - at) > shown) at = first - shown;
  snprintf(words, room, "%s", at);
}
