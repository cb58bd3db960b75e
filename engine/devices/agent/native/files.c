#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "board_root.h"
#include "methods.h"
#include "run.h"
#include "sha256.h"

#define SECONDS_NOW ((double)now_us() / 1e6)

enum { READ_LIMIT = 1 << 20, MATCHES = 256 };

static int storage(struct failure *failure, const char *path, const char *action, int error) {
  const char *remedy = error == ENOSPC  ? "Free some space on the board, or use another folder."
                       : error == EROFS ? "Use a folder that can be written."
                       : error == EACCES || error == EPERM
                           ? "Run as root, or use a folder of this user."
                           : "";
  return fail(failure, "device storage", "", remedy, "%s could not be %s: %s.", path, action,
              strerror(error));
}

const char *path_of(const struct node *node, struct failure *failure) {
  const char *path = json_text(node);
  if (path && *path == '/' && strlen(path) < 4000) return path;
  fail(failure, "device", "", "", "The request lacks an absolute path.");
  return NULL;
}

char *read_whole(const char *path, uint32_t limit, uint32_t *size, struct failure *failure) {
  struct stat facts;
  char room[BOARD_PATH], *content = NULL;
  FILE *file = fopen(board_to_host(path, room), "rb");
  int error = file ? 0 : errno;
  if (file && (fstat(fileno(file), &facts) || !S_ISREG(facts.st_mode) ||
               facts.st_size > (off_t)limit))
    error = EFBIG;
  if (!error && !(content = malloc((size_t)facts.st_size + 1))) error = ENOMEM;
  if (!error && fread(content, 1, (size_t)facts.st_size, file) != (size_t)facts.st_size) error = EIO;
  if (file) fclose(file);
  if (error) {
    free(content);
    storage(failure, path, "read", error);
    return NULL;
  }
  *size = (uint32_t)facts.st_size;
  content[*size] = 0;
  return content;
}

int write_whole(const char *path, const void *bytes, size_t size, struct failure *failure) {
  char part[BOARD_PATH + 8], room[BOARD_PATH];
  const char *real = board_to_host(path, room);
  snprintf(part, sizeof part, "%s.part", real);
  FILE *file = fopen(part, "wb");
  int error = file ? 0 : errno;
  if (file && fwrite(bytes, 1, size, file) != size) error = errno ? errno : EIO;
  if (file && fclose(file) && !error) error = errno;
  if (!error && rename(part, real)) error = errno;
  if (!error) return 0;
  unlink(part);
  return storage(failure, path, "written", error);
}

char *read_some(const char *real, size_t limit, size_t *size) {
  struct stat facts;
  /* a few files of /proc would wait for something to happen */
  int handle = open(real, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  char *content = NULL;
  ssize_t part = 0;
  *size = 0;
  if (handle >= 0 && !fstat(handle, &facts) && S_ISREG(facts.st_mode) &&
      (content = malloc(limit + 1))) {
    while (*size < limit && (part = read(handle, content + *size, limit - *size)) > 0)
      *size += (size_t)part;
    content[*size] = 0;
  }
  if (handle >= 0) close(handle);
  if (content && part < 0) {
    free(content);
    return NULL;
  }
  return content;
}

/* A file as a member of an object: its path on the board, and its text or null. */
static void add_file(struct text *text, const char *path, size_t limit) {
  size_t size;
  char *content = read_some(path, limit, &size);
  if (text->bytes[text->size - 1] != '{') text_add(text, ",");
  const char *name = host_to_board(path);
  text_string(text, name, strlen(name));
  text_add(text, ":");
  if (content)
    text_latin(text, content, size);
  else
    text_add(text, "null");
  free(content);
}

int method_read(struct request *request, struct text *result, struct failure *failure) {
  const struct document *document = &request->document;
  const struct node *paths = json_get(document, request->params, "paths");
  int64_t limit = READ_LIMIT;
  int count = 0;
  if (!paths || paths->kind != JSON_ARRAY)
    return fail(failure, "device", "", "", "`read` takes a list of paths and a limit.");
  json_whole(json_get(document, request->params, "limit"), 0, READ_LIMIT, &limit);
  text_add(result, "{");
  for (const struct node *one = json_first(document, paths); one && count++ < MATCHES;
       one = json_next(document, one)) {
    const char *path = path_of(one, failure);
    char room[BOARD_PATH];
    glob_t found;
    if (!path) return -1;
    const char *real = board_to_host(path, room);
    if (!strchr(path, '*')) {
      add_file(result, real, (size_t)limit);
      continue;
    }
    if (glob(real, GLOB_NOESCAPE, NULL, &found)) {
      if (result->bytes[result->size - 1] != '{') text_add(result, ",");
      text_string(result, path, strlen(path));
      text_add(result, ":null");
      continue;
    }
    for (size_t i = 0; i < found.gl_pathc && i < MATCHES; i++)
      add_file(result, found.gl_pathv[i], (size_t)limit);
    globfree(&found);
  }
  text_add(result, "}");
  return 0;
}

int method_watch(struct request *request, struct text *result, struct failure *failure) {
  const struct document *document = &request->document;
  const struct node *pause = json_get(document, request->params, "interval");
  double interval = pause && pause->kind == JSON_NUMBER ? pause->number : 1.0;
  int64_t count = INT64_MAX;
  json_whole(json_get(document, request->params, "count"), 0, INT64_MAX / 1024, &count);
  interval = interval < 0.02 ? 0.02 : interval > 3600 ? 3600 : interval;
  double due = SECONDS_NOW;
  int64_t done = 0;
  while (done < count && !request->cancelled) {
    struct text values = {0}, step = {0};
    int bad = method_read(request, &values, failure);
    if (!bad) text_add(&step, "\"values\":%s,\"at\":%.6f", values.bytes, SECONDS_NOW);
    if (!bad && !values.failed && !step.failed) request_progress(request, step.bytes);
    free(values.bytes);
    free(step.bytes);
    if (bad) return -1;
    done++;
    due = due + interval > SECONDS_NOW ? due + interval : SECONDS_NOW;
    for (double left; done < count && !request->cancelled && (left = due - SECONDS_NOW) > 0;)
      usleep((useconds_t)((left < 0.1 ? left : 0.1) * 1e6));
  }
  if (request->cancelled)
    return fail(failure, "cancelled", "", "", "The request was cancelled.");
  text_add(result, "{\"samples\":%lld}", (long long)done);
  return 0;
}

int method_digest(struct request *request, struct text *result, struct failure *failure) {
  const char *path = path_of(json_get(&request->document, request->params, "path"), failure);
  char block[1 << 16], hex[SHA256_HEX], room[BOARD_PATH];
  struct sha256 hash;
  size_t size, whole = 0;
  if (!path) return -1;
  FILE *file = fopen(board_to_host(path, room), "rb");
  if (!file) return storage(failure, path, "read", errno);
  sha256_begin(&hash);
  while ((size = fread(block, 1, sizeof block, file))) {
    sha256_add(&hash, block, size);
    whole += size;
  }
  int error = ferror(file) ? EIO : 0;
  fclose(file);
  if (error) return storage(failure, path, "read", error);
  sha256_end(&hash, hex);
  text_add(result, "{\"sha256\":\"%s\",\"size\":%zu}", hex, whole);
  return 0;
}
