/* What goes wrong in a stand-in of a test, as settings say:
 *   HANG=run  CRASH=run  FAIL=run:-2[:3]   what a call does, FAIL from its third time on
 *   SAY=text                               what the library prints before a call fails */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "standin.h"

static int setting_is(const char *name, const char *value) {
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
  if (setting("SAY", text)) fprintf(stderr, "%s\n", text);
  fprintf(stderr, "E RKNN: emulated: rknn_%s fails\n", call);
  return code;
}
