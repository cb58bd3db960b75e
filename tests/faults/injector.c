/* The n-th write or allocation of a process fails: loaded with LD_PRELOAD by tests/faults/attack.py.
 *
 * Writes: everything that gives a regular file a name, a size or content (ENOSPC, as on a full disk).
 * Allocations: blocks of 64 KiB and more (ENOMEM): tensors, files, thread stacks. Smaller ones fail in
 * no process that Linux lets run: it overcommits them.
 * Nothing fails until fault_arm() is called, or RKNNTUI_FAULT=KIND:NTH:FOR_GOOD is set (numbers), which
 * arms every process from its start on. A failure is one alone, or all from the n-th on.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITES, ALLOCATIONS, KINDS };
enum { LARGE = 64 << 10 };

static long seen[KINDS];
static long fails_at[KINDS]; /* 0: never */
static int stays[KINDS];

void fault_arm(int kind, long nth, int for_good) {
    seen[kind] = 0;
    stays[kind] = for_good;
    fails_at[kind] = nth;
}

/* How many there were since fault_arm. */
long fault_seen(int kind) { return seen[kind]; }

__attribute__((constructor)) static void armed_by_environment(void) {
    const char *given = getenv("RKNNTUI_FAULT");
    int kind, for_good;
    long nth;
    if (given && sscanf(given, "%d:%ld:%d", &kind, &nth, &for_good) == 3 && kind >= 0 && kind < KINDS)
        fault_arm(kind, nth, for_good);
}

static int fails(int kind) {
    if (!fails_at[kind]) return 0;
    long count = __atomic_add_fetch(&seen[kind], 1, __ATOMIC_SEQ_CST);
    return stays[kind] ? count >= fails_at[kind] : count == fails_at[kind];
}

static int full(void) {
    if (!fails(WRITES)) return 0;
    errno = ENOSPC;
    return 1;
}

static int of_a_file(int handle) {
    struct stat found;
    int before = errno;
    int regular = fstat(handle, &found) == 0 && S_ISREG(found.st_mode);
    errno = before;
    return regular;
}

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

ssize_t write(int handle, const void *data, size_t size) {
    REAL(write);
    return of_a_file(handle) && full() ? -1 : real(handle, data, size);
}

ssize_t pwrite(int handle, const void *data, size_t size, off_t at) {
    REAL(pwrite);
    return of_a_file(handle) && full() ? -1 : real(handle, data, size, at);
}

ssize_t pwrite64(int handle, const void *data, size_t size, off64_t at) {
    REAL(pwrite64);
    return of_a_file(handle) && full() ? -1 : real(handle, data, size, at);
}

ssize_t writev(int handle, const struct iovec *parts, int count) {
    REAL(writev);
    return of_a_file(handle) && full() ? -1 : real(handle, parts, count);
}

int ftruncate(int handle, off_t size) {
    REAL(ftruncate);
    return size && full() ? -1 : real(handle, size);
}

int posix_fallocate(int handle, off_t at, off_t size) {
    REAL(posix_fallocate);
    return full() ? ENOSPC : real(handle, at, size);
}

int mkdir(const char *path, mode_t mode) {
    REAL(mkdir);
    return full() ? -1 : real(path, mode);
}

int rename(const char *from, const char *to) {
    REAL(rename);
    return full() ? -1 : real(from, to);
}

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
    REAL(linkat);
    return full() ? -1 : real(from_folder, from, to_folder, to, flags);
}

static int makes(int flags) { return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE; }

#define OPENS(name, arguments, call) \
    int name arguments { \
        REAL(name); \
        mode_t mode = 0; \
        if (makes(flags)) { \
            va_list more; \
            va_start(more, flags); \
            mode = va_arg(more, mode_t); \
            va_end(more); \
            if (full()) return -1; \
        } \
        return real call; \
    }

OPENS(open, (const char *path, int flags, ...), (path, flags, mode))
OPENS(open64, (const char *path, int flags, ...), (path, flags, mode))
OPENS(openat, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))
OPENS(openat64, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))

/* ------------------------------------------------------------------------------ allocations */

static int short_of(size_t size) {
    if (size < LARGE || !fails(ALLOCATIONS)) return 0;
    errno = ENOMEM;
    return 1;
}

/* dlsym allocates: the C library's own names are called instead. */
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

void *malloc(size_t size) { return short_of(size) ? NULL : __libc_malloc(size); }

void *calloc(size_t count, size_t size) {
    size_t total;
    if (!__builtin_mul_overflow(count, size, &total) && short_of(total)) return NULL;
    return __libc_calloc(count, size);
}

void *realloc(void *block, size_t size) { return short_of(size) ? NULL : __libc_realloc(block, size); }

void *memalign(size_t boundary, size_t size) {
    return short_of(size) ? NULL : __libc_memalign(boundary, size);
}

void *aligned_alloc(size_t boundary, size_t size) { return memalign(boundary, size); }

int posix_memalign(void **block, size_t boundary, size_t size) {
    if (short_of(size)) return ENOMEM;
    *block = __libc_memalign(boundary, size);
    return *block ? 0 : ENOMEM;
}

void *mmap(void *place, size_t size, int rights, int flags, int handle, off_t at) {
    REAL(mmap);
    return short_of(size) ? MAP_FAILED : real(place, size, rights, flags, handle, at);
}
