/* Lets files of governors behave as the kernel's do: a frequency can be set under `userspace` only,
 * as in devfreq and cpufreq. A test preloads it into the agent. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int ends(const char *path, const char *with) {
  size_t size = strlen(path), end = strlen(with);
  return size >= end && !strcmp(path + size - end, with);
}

static void put(const char *folder, const char *name, const char *text) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "w");
  if (file && fputs(text, file) >= 0) fclose(file);
}

static void governed(char *path, int ours) {
  *strrchr(path, '/') = 0;
  char below[4096];
  snprintf(below, sizeof below, "%s/userspace", path);
  if (ends(path, "/cpu")) {
    put(path, "setspeed", ours ? "600000\n" : "<unsupported>\n");
  } else if (ours) {
    mkdir(below, 0755);
    put(below, "set_freq", "200000000\n");
  } else {
    strcat(below, "/set_freq");
    unlink(below);
  }
}

int open(const char *path, int flags, ...) {
  int (*real)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
  va_list more;
  va_start(more, flags);
  int mode = va_arg(more, int);
  va_end(more);
  if ((flags & O_ACCMODE) == O_WRONLY && ends(path, "/setspeed")) {
    FILE *file = fopen(path, "r");
    int first = file ? fgetc(file) : 0;
    if (file) fclose(file);
    if (first == '<') {
      errno = EINVAL;
      return -1;
    }
  }
  return real(path, flags, mode);
}

ssize_t write(int handle, const void *bytes, size_t size) {
  ssize_t (*real)(int, const void *, size_t) =
      (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
  ssize_t done = real(handle, bytes, size);
  char name[64], path[4096];
  snprintf(name, sizeof name, "/proc/self/fd/%d", handle);
  ssize_t length = readlink(name, path, sizeof path - 1);
  if (done < 0 || length < 0) return done;
  path[length] = 0;
  if (ends(path, "/governor"))
    governed(path, size >= 9 && !memcmp(bytes, "userspace", 9));
  return done;
}
