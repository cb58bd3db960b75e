/* JSON (RFC 8259), strict and bounded: a line that is read, and text that is written. */
#ifndef RKNNTUI_JSON_H
#define RKNNTUI_JSON_H

#include <stddef.h>
#include <stdint.h>

enum { MOST_NODES = 8192, MOST_DEPTH = 16 };

enum kind { JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

struct node {
  enum kind kind;
  const char *key;  /* within an object */
  const char *text; /* of a string: NUL at its end, none within */
  double number;
  uint32_t child, next; /* numbers of nodes; 0 is none */
};

struct document {
  struct node *nodes; /* the first is the whole */
  uint32_t count;
};

/* Parse `line`, which is changed and has to outlive the document. 0 where it is not JSON, or is
 * larger or deeper than the bounds, or has a NUL within a string. */
int json_parse(struct document *document, char *line, size_t length);
void json_free(struct document *document);

/* The member of an object; NULL where it is not there, or `node` is no object. */
const struct node *json_get(const struct document *document, const struct node *node,
                            const char *key);
/* The first item of an array or object, and the one after an item; NULL where there is none. */
const struct node *json_first(const struct document *document, const struct node *node);
const struct node *json_next(const struct document *document, const struct node *node);
/* Every item of an array or object. */
#define JSON_EACH(one, document, items) \
  for (const struct node *one = json_first(document, items); one; one = json_next(document, one))
/* The text of a string; NULL for anything else. */
const char *json_text(const struct node *node);
/* A whole number within bounds: 1; 0 for anything else, with `value` left as it is. */
int json_whole(const struct node *node, int64_t least, int64_t most, int64_t *value);
/* Whether it is there and true. */
int json_true(const struct node *node);

/* Text that grows. */
struct text {
  char *bytes;
  size_t size, room;
  int failed; /* there was no memory */
};

void text_add(struct text *text, const char *form, ...) __attribute__((format(printf, 2, 3)));
/* A string with its quotes: of UTF-8, where what is none becomes U+FFFD, or of Latin-1. */
void text_string(struct text *text, const char *bytes, size_t size);
/* ,"key": and a text of at most `room` bytes, up to its NUL. */
void text_member(struct text *text, const char *key, const char *value, size_t room);
void text_latin(struct text *text, const char *bytes, size_t size);

#endif
