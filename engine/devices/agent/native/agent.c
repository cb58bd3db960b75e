/* The agent: a program that is sent to a board and asked there, by the protocol of
 * engine/base/peers/far.py. Its methods are open, run, memory, close, read, watch, digest,
 * write_clocks and restore_clocks.
 *
 *   cc -O2 -o agent *.c -ldl -lpthread -lm
 *   python -m ziglang cc -target aarch64-linux-gnu.2.17 -O2 -o agent *.c -ldl -lpthread -lm
 *
 * Usage: agent [--request IN.json --reply OUT.json]
 *
 * One-shot mode is for boards whose adbd gives a program no streams of its own: IN.json holds
 * {"requests": [[method, params]..], "seconds": S}, OUT.json {"answers": [{"result"}|{"error"}..]},
 * written whole. With `seconds` it ends after so long; answers that are missing by then are errors. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "methods.h"
#include "noise.h"

enum { LINE_LIMIT = 1 << 20, FILE_LIMIT = 1 << 24, MOST_BESIDE = 8, MOST_WAITING = 256 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;
static struct request *under_way; /* all that are not answered, the newest first */
static int writes = -1, beside, waiting;

/* The end of this process, whatever its main thread does. Clocks are restored before it, but after a
 * file of requests: those that follow are another process, and who asked restores them. */
static void end(int code, int restores) {
  static pthread_mutex_t ending = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&ending); /* two threads may come here; the second waits for the end */
  if (restores) restore_clocks();
  noise_mark();
  _exit(code);
}

/* Hears signals in a thread: one that is in a call of the library hears none. */
static void *hear(void *signals) {
  int number;
  while (sigwait(signals, &number)) continue;
  end(128 + number, 1);
  return NULL;
}

/* Before any other thread starts: one that does not block them would end the process. */
static int listen_for_signals(void) {
  static sigset_t signals;
  pthread_t thread;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGHUP);
  sigaddset(&signals, SIGINT);
  if (pthread_sigmask(SIG_BLOCK, &signals, NULL)) return 0;
  return !pthread_create(&thread, NULL, hear, &signals);
}

/* Write all of it; a near end that has gone is noticed at the end of the input. */
static void write_all(const char *bytes, size_t size) {
  pthread_mutex_lock(&writing);
  while (size) {
    ssize_t part = write(writes, bytes, size);
    if (part <= 0) break;
    bytes += part;
    size -= (size_t)part;
  }
  pthread_mutex_unlock(&writing);
}

static void send_text(struct text *text) {
  if (!text->failed) write_all(text->bytes, text->size);
  free(text->bytes);
}

static void add_error(struct text *text, const struct failure *failure) {
  text_add(text, "\"error\":{\"kind\":\"%s\"", failure->kind);
  text_member(text, "what", failure->what, sizeof failure->what);
  text_member(text, "cause", failure->cause, sizeof failure->cause);
  text_member(text, "remedy", failure->remedy, sizeof failure->remedy);
  text_add(text, "}");
}

/* The parts `result` or `error` of an answer. */
static void add_outcome(struct text *text, struct request *request) {
  struct text result = {0};
  struct failure failure;
  int bad = method_call(request, &result, &failure);
  if (!bad && result.failed) bad = fail(&failure, "device", "", "", "There is no memory left.");
  if (bad)
    add_error(text, &failure);
  else
    text_add(text, "\"result\":%s", result.bytes);
  free(result.bytes);
}

void request_progress(struct request *request, const char *members) {
  struct text text = {0};
  if (request->number < 0) return; /* one-shot mode: nobody hears it */
  text_add(&text, "{%s,\"id\":%lld}\n", members, (long long)request->number);
  send_text(&text);
}

static void request_free(struct request *request) {
  json_free(&request->document);
  free(request->line);
  free(request);
}

static void answer(struct request *request) {
  struct text text = {0};
  text_add(&text, "{");
  add_outcome(&text, request);
  text_add(&text, ",\"id\":%lld}\n", (long long)request->number);
  pthread_mutex_lock(&lock);
  for (struct request **at = &under_way; *at; at = &(*at)->next)
    if (*at == request) {
      *at = request->next;
      break;
    }
  pthread_mutex_unlock(&lock);
  send_text(&text);
  request_free(request);
}

static void *answer_beside(void *request) {
  answer(request);
  pthread_mutex_lock(&lock);
  beside--;
  pthread_mutex_unlock(&lock);
  return NULL;
}

static void refuse(int64_t number, const char *what) {
  struct text text = {0};
  struct failure failure;
  fail(&failure, "device", "", "", "%s", what);
  text_add(&text, "{");
  add_error(&text, &failure);
  if (number >= 0) text_add(&text, ",\"id\":%lld", (long long)number);
  text_add(&text, "}\n");
  send_text(&text);
}

static int starts_beside(struct request *request) {
  pthread_t thread;
  if (beside == MOST_BESIDE || pthread_create(&thread, NULL, answer_beside, request)) return 0;
  pthread_detach(thread);
  beside++;
  return 1;
}

static void take(struct request *request) {
  const struct document *document = &request->document;
  const struct node *whole = document->nodes, *cancel = json_get(document, whole, "cancel");
  int64_t number = -1;
  int kept = 0;
  if (cancel && json_whole(cancel, 0, INT64_MAX / 1024, &number)) {
    pthread_mutex_lock(&lock);
    for (struct request *one = under_way; one; one = one->next)
      if (one->number == number) one->cancelled = 1;
    pthread_mutex_unlock(&lock);
  } else if (json_whole(json_get(document, whole, "id"), 0, INT64_MAX / 1024, &number) &&
             json_text(json_get(document, whole, "method"))) {
    request->number = number;
    request->method = json_text(json_get(document, whole, "method"));
    request->params = json_get(document, whole, "params");
    request->beside = method_is_quick(request->method);
    pthread_mutex_lock(&lock);
    request->next = under_way;
    under_way = request;
    kept = request->beside ? starts_beside(request) : waiting < MOST_WAITING;
    if (!kept) under_way = request->next;
    if (kept && !request->beside) waiting++;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    if (!kept)
      refuse(number, request->beside ? "More than 8 requests are under way."
                                     : "More than 256 requests are under way.");
  } else {
    refuse(-1, "A line of the protocol could not be read: it is no request.");
  }
  if (!kept) request_free(request);
}

static void take_line(const char *bytes, size_t size) {
  struct request *request = calloc(1, sizeof *request);
  if (request && (request->line = malloc(size + 1))) {
    memcpy(request->line, bytes, size);
    request->line[size] = 0;
    if (json_parse(&request->document, request->line, size)) {
      take(request);
      return;
    }
  }
  if (request) request_free(request);
  refuse(-1, "A line of the protocol could not be read: a line is not JSON.");
}

/* Reads requests; the process ends at the end of the input, whatever else it does. */
static void *read_lines(void *argument) {
  int reads = *(int *)argument, overlong = 0;
  char *line = malloc(LINE_LIMIT), chunk[1 << 16];
  size_t held = 0;
  ssize_t size;
  while (line && (size = read(reads, chunk, sizeof chunk)) > 0)
    for (char *at = chunk, *end = chunk + size; at < end;) {
      char *stop = memchr(at, '\n', (size_t)(end - at));
      size_t part = (size_t)((stop ? stop : end) - at);
      if (held + part > LINE_LIMIT) overlong = 1;
      if (!overlong) {
        memcpy(line + held, at, part);
        held += part;
      }
      if (stop && overlong)
        refuse(-1, "A line of the protocol could not be read: a line is too long.");
      else if (stop)
        take_line(line, held);
      if (stop) {
        held = 0;
        overlong = 0;
        part++;
      }
      at += part;
    }
  end(0, 1);
  return NULL;
}

/* The oldest request that waits for the main thread. */
static struct request *oldest(void) {
  struct request *found = NULL;
  pthread_mutex_lock(&lock);
  while (!waiting) pthread_cond_wait(&changed, &lock);
  for (struct request *one = under_way; one; one = one->next)
    if (!one->beside) found = one;
  waiting--;
  pthread_mutex_unlock(&lock);
  return found;
}

static void converse(int reads) {
  struct utsname machine;
  struct text text = {0};
  pthread_t thread;
  uname(&machine);
  text_add(&text, "{\"ready\":true,\"protocol\":1,\"pid\":%d,\"python\":\"\"", (int)getpid());
  text_member(&text, "machine", machine.machine, sizeof machine.machine);
  text_add(&text, "}\n");
  send_text(&text);
  if (pthread_create(&thread, NULL, read_lines, &reads)) _exit(1);
  for (;;) answer(oldest());
}

struct one_shot {
  pthread_mutex_t lock;
  struct text answers;
  int count, done;
  double seconds;
  const char *reply;
};

/* Write the answers and end; those that are missing are errors. */
static void finish(struct one_shot *shot) {
  struct failure failure;
  fail(&failure, "device", "The NPU hangs, or the time was too short.", "",
       "It was not finished after %g s.", shot->seconds);
  for (; shot->done < shot->count; shot->done++) {
    text_add(&shot->answers, "%s{", shot->done ? "," : "");
    add_error(&shot->answers, &failure);
    text_add(&shot->answers, "}");
  }
  text_add(&shot->answers, "]}");
  int bad = shot->answers.failed ||
            write_whole(shot->reply, shot->answers.bytes, shot->answers.size, &failure);
  end(bad, 0);
}

static void *late(void *argument) {
  struct one_shot *shot = argument;
  usleep((useconds_t)(shot->seconds * 1e6));
  pthread_mutex_lock(&shot->lock);
  finish(shot);
  return NULL;
}

static int once(const char *request_path, const char *reply) {
  struct document document;
  struct failure failure;
  struct one_shot shot = {.lock = PTHREAD_MUTEX_INITIALIZER, .reply = reply};
  uint32_t size;
  pthread_t thread;
  char *content = read_whole(request_path, FILE_LIMIT, &size, &failure);
  if (!content || !json_parse(&document, content, size)) {
    fprintf(stderr, "%s is no file of requests\n", request_path);
    return 2;
  }
  const struct node *requests = json_get(&document, document.nodes, "requests");
  const struct node *seconds = json_get(&document, document.nodes, "seconds");
  JSON_EACH(one, &document, requests) shot.count++;
  text_add(&shot.answers, "{\"answers\":[");
  if (seconds && seconds->kind == JSON_NUMBER && seconds->number >= 0 && seconds->number <= 3600) {
    shot.seconds = seconds->number;
    if (pthread_create(&thread, NULL, late, &shot)) return 1;
  }
  JSON_EACH(one, &document, requests) {
    const struct node *name = json_first(&document, one);
    struct request request = {.number = -1, .document = document};
    struct text text = {0};
    request.method = json_text(name) ? json_text(name) : "";
    request.params = name ? json_next(&document, name) : NULL;
    text_add(&text, "%s{", shot.done ? "," : "");
    add_outcome(&text, &request);
    text_add(&text, "}");
    pthread_mutex_lock(&shot.lock);
    text_add(&shot.answers, "%s", text.bytes);
    shot.done++;
    pthread_mutex_unlock(&shot.lock);
    free(text.bytes);
  }
  pthread_mutex_lock(&shot.lock);
  finish(&shot);
  return 0;
}

int main(int count, char **words) {
  int shot = count == 5 && !strcmp(words[1], "--request") && !strcmp(words[3], "--reply");
  if (count != 1 && !shot) {
    fprintf(stderr, "usage: agent [--request IN.json --reply OUT.json]\n");
    return 2;
  }
  signal(SIGPIPE, SIG_IGN);
  int reads = dup(0);
  writes = dup(1);
  if (!tell_crashes() || reads < 0 || writes < 0 || !freopen("/dev/null", "r", stdin) || !listen_for_signals() ||
      !noise_start())
    return 1;
  if (shot) return once(words[2], words[4]);
  converse(reads);
}
