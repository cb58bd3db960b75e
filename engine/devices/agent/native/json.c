#define _GNU_SOURCE
#include "json.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
  struct document *document;
  char *at, *end;
  uint32_t room;
};

static void blank(struct reader *r) {
  while (r->at < r->end && strchr(" \t\r\n", *r->at) && *r->at) r->at++;
}

static uint32_t node(struct reader *r) {
  struct document *d = r->document;
  if (d->count == MOST_NODES) return 0;
  if (d->count == r->room) {
    uint32_t room = r->room ? 2 * r->room : 64;
    struct node *grown = realloc(d->nodes, room * sizeof *grown);
    if (!grown) return 0;
    d->nodes = grown;
    r->room = room;
  }
  memset(&d->nodes[d->count], 0, sizeof *d->nodes);
  return ++d->count; /* one more than its number: 0 is a failure */
}

static int hex4(struct reader *r, uint32_t *value) {
  static const char digits[] = "0123456789abcdefABCDEF";
  *value = 0;
  for (int i = 0; i < 4; i++) {
    const char *digit = r->at < r->end ? memchr(digits, *r->at++, sizeof digits - 1) : NULL;
    if (!digit) return 0;
    *value = *value * 16 + (uint32_t)(digit - digits < 16 ? digit - digits : digit - digits - 6);
  }
  return 1;
}

/* The sign of \uXXXX as UTF-8; a pair of surrogates is one sign. */
static char *unicode(struct reader *r, char *to) {
  uint32_t sign, low;
  if (!hex4(r, &sign) || !sign || (sign >= 0xdc00 && sign < 0xe000)) return NULL;
  if (sign >= 0xd800 && sign < 0xdc00) {
    if (r->end - r->at < 6 || r->at[0] != '\\' || r->at[1] != 'u') return NULL;
    r->at += 2;
    if (!hex4(r, &low) || low < 0xdc00 || low > 0xdfff) return NULL;
    sign = 0x10000 + ((sign - 0xd800) << 10) + (low - 0xdc00);
  }
  static const uint8_t heads[] = {0, 0xc0, 0xe0, 0xf0};
  int more = (sign >= 0x80) + (sign >= 0x800) + (sign >= 0x10000); /* bytes behind the first */
  *to++ = (char)(heads[more] | sign >> 6 * more);
  while (more--) *to++ = (char)(0x80 | (sign >> 6 * more & 63));
  return to;
}

/* In place: what a string says is never longer than how it is written. */
static const char *string(struct reader *r) {
  static const char signs[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
  char *text = ++r->at, *to = text;
  while (r->at < r->end && *r->at != '"') {
    unsigned char c = (unsigned char)*r->at++;
    if (c < 0x20) return NULL;
    if (c != '\\') {
      *to++ = (char)c;
      continue;
    }
    if (r->at == r->end) return NULL;
    const char *sign = strchr(signs, *r->at);
    if (sign && *sign) {
      r->at++;
      *to++ = values[sign - signs];
    } else if (*r->at++ != 'u' || !(to = unicode(r, to))) {
      return NULL;
    }
  }
  if (r->at == r->end) return NULL;
  r->at++;
  *to = 0;
  return text;
}

static int digits(struct reader *r) {
  char *begin = r->at;
  while (r->at < r->end && *r->at >= '0' && *r->at <= '9') r->at++;
  return r->at > begin;
}

static int number(struct reader *r, double *value) {
  char *begin = r->at, copy[64];
  if (*r->at == '-') r->at++;
  if (r->at < r->end && *r->at == '0')
    r->at++;
  else if (!digits(r))
    return 0;
  if (r->at < r->end && *r->at == '.' && (r->at++, !digits(r))) return 0;
  if (r->at < r->end && (*r->at == 'e' || *r->at == 'E')) {
    r->at++;
    if (r->at < r->end && (*r->at == '+' || *r->at == '-')) r->at++;
    if (!digits(r)) return 0;
  }
  size_t length = (size_t)(r->at - begin);
  if (length >= sizeof copy) return 0;
  memcpy(copy, begin, length);
  copy[length] = 0;
  *value = strtod(copy, NULL);
  return isfinite(*value);
}

static int word(struct reader *r, const char *text) {
  size_t length = strlen(text);
  if ((size_t)(r->end - r->at) < length || memcmp(r->at, text, length)) return 0;
  r->at += length;
  return 1;
}

static uint32_t value(struct reader *r, int depth);

/* The items of an array or object, the sign that opens it being read. */
static int items(struct reader *r, uint32_t parent, char close, int depth) {
  uint32_t last = 0;
  blank(r);
  if (r->at < r->end && *r->at == close) {
    r->at++;
    return 1;
  }
  for (;;) {
    const char *key = NULL;
    blank(r);
    if (close == '}') {
      if (r->at == r->end || *r->at != '"' || !(key = string(r))) return 0;
      blank(r);
      if (r->at == r->end || *r->at++ != ':') return 0;
    }
    uint32_t item = value(r, depth + 1);
    if (!item) return 0;
    r->document->nodes[item - 1].key = key;
    if (last)
      r->document->nodes[last - 1].next = item - 1;
    else
      r->document->nodes[parent - 1].child = item - 1;
    last = item;
    blank(r);
    if (r->at == r->end) return 0;
    if (*r->at == close) {
      r->at++;
      return 1;
    }
    if (*r->at++ != ',') return 0;
  }
}

/* One more than the number of the node of what comes; 0 where it is nothing. */
static uint32_t value(struct reader *r, int depth) {
  uint32_t found;
  struct node filled = {0};
  blank(r);
  if (depth > MOST_DEPTH || r->at == r->end || !(found = node(r))) return 0;
  char c = *r->at;
  if (c == '{' || c == '[') {
    r->at++;
    r->document->nodes[found - 1].kind = c == '{' ? JSON_OBJECT : JSON_ARRAY;
    return items(r, found, c == '{' ? '}' : ']', depth) ? found : 0;
  }
  if (c == '"') {
    filled.kind = JSON_STRING;
    if (!(filled.text = string(r))) return 0;
  } else if (c == '-' || (c >= '0' && c <= '9')) {
    filled.kind = JSON_NUMBER;
    if (!number(r, &filled.number)) return 0;
  } else if (word(r, "true")) {
    filled.kind = JSON_TRUE;
  } else if (word(r, "false")) {
    filled.kind = JSON_FALSE;
  } else if (!word(r, "null")) {
    return 0;
  }
  r->document->nodes[found - 1] = filled;
  return found;
}

int json_parse(struct document *document, char *line, size_t length) {
  struct reader r = {document, line, line + length, 0};
  document->nodes = NULL;
  document->count = 0;
  if (value(&r, 0)) {
    blank(&r);
    if (r.at == r.end) return 1;
  }
  json_free(document);
  return 0;
}

void json_free(struct document *document) {
  free(document->nodes);
  document->nodes = NULL;
  document->count = 0;
}

const struct node *json_first(const struct document *document, const struct node *node) {
  if (!node || (node->kind != JSON_ARRAY && node->kind != JSON_OBJECT)) return NULL;
  return node->child ? &document->nodes[node->child] : NULL;
}

const struct node *json_next(const struct document *document, const struct node *node) {
  return node->next ? &document->nodes[node->next] : NULL;
}

const struct node *json_get(const struct document *document, const struct node *node,
                            const char *key) {
  if (!node || node->kind != JSON_OBJECT) return NULL;
  const struct node *item = json_first(document, node);
  while (item && strcmp(item->key, key)) item = json_next(document, item);
  return item;
}

const char *json_text(const struct node *node) {
  return node && node->kind == JSON_STRING ? node->text : NULL;
}

int json_whole(const struct node *node, int64_t least, int64_t most, int64_t *value) {
  if (!node || node->kind != JSON_NUMBER || node->number != floor(node->number)) return 0;
  if (node->number < (double)least || node->number > (double)most) return 0;
  *value = (int64_t)node->number;
  return 1;
}

int json_true(const struct node *node) { return node && node->kind == JSON_TRUE; }

static int make_room(struct text *text, size_t more) {
  if (text->size + more < text->room) return 1;
  size_t room = 2 * (text->size + more + 64);
  char *grown = text->failed ? NULL : realloc(text->bytes, room);
  if (!grown) {
    text->failed = 1;
    return 0;
  }
  text->bytes = grown;
  text->room = room;
  return 1;
}

void text_add(struct text *text, const char *form, ...) {
  va_list values;
  va_start(values, form);
  int size = vsnprintf(NULL, 0, form, values);
  va_end(values);
  if (size < 0 || !make_room(text, (size_t)size + 1)) return;
  va_start(values, form);
  vsnprintf(text->bytes + text->size, text->room - text->size, form, values);
  va_end(values);
  text->size += (size_t)size;
}

static void sign(struct text *text, unsigned char c) {
  if (c == '"' || c == '\\')
    text_add(text, "\\%c", c);
  else if (c < 0x20 || c == 0x7f)
    text_add(text, "\\u%04x", c);
  else if (make_room(text, 2)) {
    text->bytes[text->size++] = (char)c;
    text->bytes[text->size] = 0;
  }
}

/* How many bytes a sign of UTF-8 has that begins here; 0 where none does. */
static size_t utf8(const unsigned char *at, size_t left) {
  size_t length = at[0] < 0x80                    ? 1
                  : at[0] >= 0xc2 && at[0] < 0xe0 ? 2
                  : at[0] >= 0xe0 && at[0] < 0xf0 ? 3
                  : at[0] >= 0xf0 && at[0] < 0xf5 ? 4
                                                  : 0;
  if (length > left) return 0;
  for (size_t i = 1; i < length; i++)
    if ((at[i] & 0xc0) != 0x80) return 0;
  if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) ||
      (at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f))
    return 0;
  return length;
}

void text_string(struct text *text, const char *bytes, size_t size) {
  const unsigned char *at = (const unsigned char *)bytes, *end = at + size;
  text_add(text, "\"");
  while (at < end) {
    size_t length = utf8(at, (size_t)(end - at));
    if (!length) {
      text_add(text, "\\ufffd");
      at++;
    } else if (length == 1) {
      sign(text, *at++);
    } else {
      text_add(text, "%.*s", (int)length, at);
      at += length;
    }
  }
  text_add(text, "\"");
}

void text_member(struct text *text, const char *key, const char *value, size_t room) {
  text_add(text, ",\"%s\":", key);
  text_string(text, value, strnlen(value, room));
}

void text_latin(struct text *text, const char *bytes, size_t size) {
  text_add(text, "\"");
  for (size_t i = 0; i < size; i++) {
    unsigned char c = (unsigned char)bytes[i];
    if (c < 0x80)
      sign(text, c);
    else
      text_add(text, "\\u%04x", c);
  }
  text_add(text, "\"");
}
