#include "board_root.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* BOARD_ROOT and its length where `path` is below it; the length is 0 where there is none. */
static const char *root_of(const char *path, size_t *length, int *below) {
  const char *root = getenv("BOARD_ROOT");
  *length = root ? strlen(root) : 0;
  *below = *length && !strncmp(path, root, *length) && path[*length] == '/';
  return root;
}

const char *board_to_host(const char *path, char room[BOARD_PATH]) {
  size_t length;
  int below;
  const char *root = root_of(path, &length, &below);
  if (!length || below || *path != '/') return path;
  return snprintf(room, BOARD_PATH, "%s%s", root, path) < BOARD_PATH ? room : path;
}

const char *host_to_board(const char *path) {
  size_t length;
  int below;
  root_of(path, &length, &below);
  return below ? path + length : path;
}
