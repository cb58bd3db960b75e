#define _GNU_SOURCE
#include "settings.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

int setting_is(const char *name, const char *value) {
  char text[SETTING];
  return setting(name, text) && !strcmp(text, value);
}

int fault(const char *call) {
  static int calls;
  char text[SETTING], name[32];
  int code, from = 1;
  if (setting_is("HANG", call)) {
    fprintf(stderr, "W RKNN: emulated: rknn_%s hangs\n", call);
    for (;;) pause();
  }
  if (setting_is("CRASH", call)) {
    fprintf(stderr, "E RKNN: emulated: rknn_%s crashes\n", call);
    abort();
  }
  if (!setting("FAIL", text) || sscanf(text, "%31[a-z_]:%d:%d", name, &code, &from) < 2) return 0;
  if (strcmp(name, call) || code >= 0) return 0;
  if (__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) < from) return 0;
  fprintf(stderr, "E RKNN: emulated: rknn_%s fails\n", call);
  return code;
}
