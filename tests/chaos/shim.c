/* Preloaded into the broker: shifts its wall clock, and fails its file operations below the data directory.

   The control block is a file that both processes map (CHAOS_CONTROL). tests/chaos/shim.py writes it and has the same
   layout. A failing operation has no effect, except that a write may be short and a full disk takes what still fits. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { OPEN, READ, WRITE, FSYNC, TRUNCATE, RENAME, OPERATIONS };

struct control {
    int64_t clock_offset_ns;
    int64_t free_bytes;              /* what still fits on the disk; -1: no limit */
    int64_t random_state;
    int32_t short_writes_per_mille;
    int32_t error[OPERATIONS];       /* errno; 0: the operation works */
    int32_t per_mille[OPERATIONS];   /* how often it fails */
    int32_t injected[OPERATIONS];    /* how often it has failed */
};

static struct control idle = {.free_bytes = -1};
static struct control *control = &idle;
static const char *data;
static size_t data_length;

/* The function of the next library, here the C library. */
#define REAL(name)                                     \
    ({                                                 \
        static __typeof__(&name) found;                \
        if (found == NULL)                             \
            *(void **)&found = dlsym(RTLD_NEXT, #name); \
        found;                                         \
    })

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("CHAOS_CONTROL");
    data = getenv("CHAOS_DATA");
    if (path == NULL || data == NULL)
        return;
    data_length = strlen(data);
    int fd = REAL(open)(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    void *mapped = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    REAL(close)(fd);
    if (mapped != MAP_FAILED)
        control = mapped;
}

/* --- when an operation fails ------------------------------------------------------------------------------------ */

static int happens(int32_t per_mille) {
    uint64_t x = (uint64_t)control->random_state | 1;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    control->random_state = (int64_t)x;
    return (int32_t)((x >> 20) % 1000) < per_mille;
}

static int is_data_path(const char *path) {
    return data != NULL && path != NULL && strncmp(path, data, data_length) == 0;
}

static int is_data_file(int fd) {
    char link[64], target[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, target, sizeof target - 1);
    if (length < 0)
        return 0;
    target[length] = 0;
    return is_data_path(target);
}

static int fails(int operation) {
    if (!happens(control->per_mille[operation]))
        return 0;
    control->injected[operation]++;
    errno = control->error[operation];
    return 1;
}

static int path_fails(int operation, const char *path) {
    return control->error[operation] != 0 && is_data_path(path) && fails(operation);
}

static int file_fails(int operation, int fd) {
    return control->error[operation] != 0 && is_data_file(fd) && fails(operation);
}

/* --- clock ------------------------------------------------------------------------------------------------------ */

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = REAL(clock_gettime)(clock, now);
    if (result == 0 && control->clock_offset_ns != 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t ns = now->tv_sec * INT64_C(1000000000) + now->tv_nsec + control->clock_offset_ns;
        now->tv_sec = ns / 1000000000;
        now->tv_nsec = ns % 1000000000;
    }
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    struct timespec precise;
    int result = clock_gettime(CLOCK_REALTIME, &precise);
    if (result == 0) {
        now->tv_sec = precise.tv_sec;
        now->tv_usec = precise.tv_nsec / 1000;
    }
    return result;
}

time_t time(time_t *seconds) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (seconds != NULL)
        *seconds = now.tv_sec;
    return now.tv_sec;
}

/* --- files ------------------------------------------------------------------------------------------------------ */

#define OPEN_FUNCTION(name)                                                 \
    int name(const char *path, int flags, ...) {                            \
        va_list arguments;                                                  \
        va_start(arguments, flags);                                         \
        mode_t mode = va_arg(arguments, mode_t);                            \
        va_end(arguments);                                                  \
        return path_fails(OPEN, path) ? -1 : REAL(name)(path, flags, mode); \
    }

#define OPENAT_FUNCTION(name)                                                          \
    int name(int directory, const char *path, int flags, ...) {                        \
        va_list arguments;                                                             \
        va_start(arguments, flags);                                                    \
        mode_t mode = va_arg(arguments, mode_t);                                       \
        va_end(arguments);                                                             \
        return path_fails(OPEN, path) ? -1 : REAL(name)(directory, path, flags, mode); \
    }

OPEN_FUNCTION(open)
OPEN_FUNCTION(open64)
OPENAT_FUNCTION(openat)
OPENAT_FUNCTION(openat64)

ssize_t read(int fd, void *buffer, size_t size) {
    return file_fails(READ, fd) ? -1 : REAL(read)(fd, buffer, size);
}

ssize_t pread(int fd, void *buffer, size_t size, off_t position) {
    return file_fails(READ, fd) ? -1 : REAL(pread)(fd, buffer, size, position);
}

ssize_t pread64(int fd, void *buffer, size_t size, off64_t position) {
    return file_fails(READ, fd) ? -1 : REAL(pread64)(fd, buffer, size, position);
}

/* How many of these bytes can be written: all, some, or -1 with errno. */
static ssize_t writable(int fd, size_t size) {
    int is_limited = control->free_bytes >= 0 || control->short_writes_per_mille != 0;
    if (control->error[WRITE] == 0 && !is_limited)
        return (ssize_t)size;
    if (size == 0 || !is_data_file(fd))
        return (ssize_t)size;
    if (control->error[WRITE] != 0 && fails(WRITE))
        return -1;
    size_t fits = size;
    if (size > 1 && happens(control->short_writes_per_mille))
        fits = size / 2;
    if (control->free_bytes >= 0) {
        if (control->free_bytes == 0) {
            control->injected[WRITE]++;
            errno = ENOSPC;
            return -1;
        }
        if ((int64_t)fits > control->free_bytes)
            fits = (size_t)control->free_bytes;
        control->free_bytes -= (int64_t)fits;
    }
    return (ssize_t)fits;
}

ssize_t write(int fd, const void *buffer, size_t size) {
    ssize_t fits = writable(fd, size);
    return fits < 0 ? -1 : REAL(write)(fd, buffer, (size_t)fits);
}

ssize_t pwrite(int fd, const void *buffer, size_t size, off_t position) {
    ssize_t fits = writable(fd, size);
    return fits < 0 ? -1 : REAL(pwrite)(fd, buffer, (size_t)fits, position);
}

ssize_t pwrite64(int fd, const void *buffer, size_t size, off64_t position) {
    ssize_t fits = writable(fd, size);
    return fits < 0 ? -1 : REAL(pwrite64)(fd, buffer, (size_t)fits, position);
}

static ssize_t write_vector(int fd, const struct iovec *vector, int count, off64_t position) {
    size_t size = 0;
    for (int index = 0; index < count; index++)
        size += vector[index].iov_len;
    ssize_t fits = writable(fd, size);
    if (fits < 0)
        return -1;
    if ((size_t)fits == size)
        return REAL(pwritev64)(fd, vector, count, position);
    ssize_t written = 0;
    for (int index = 0; index < count && written < fits; index++) {
        size_t length = vector[index].iov_len;
        if ((ssize_t)length > fits - written)
            length = (size_t)(fits - written);
        ssize_t done = REAL(pwrite64)(fd, vector[index].iov_base, length, position + written);
        if (done < 0)
            return written != 0 ? written : -1;
        written += done;
    }
    return written;
}

ssize_t pwritev(int fd, const struct iovec *vector, int count, off_t position) {
    return write_vector(fd, vector, count, position);
}

ssize_t pwritev64(int fd, const struct iovec *vector, int count, off64_t position) {
    return write_vector(fd, vector, count, position);
}

ssize_t pwritev2(int fd, const struct iovec *vector, int count, off_t position, int flags) {
    (void)flags;
    return write_vector(fd, vector, count, position);
}

ssize_t pwritev64v2(int fd, const struct iovec *vector, int count, off64_t position, int flags) {
    (void)flags;
    return write_vector(fd, vector, count, position);
}

int fsync(int fd) {
    return file_fails(FSYNC, fd) ? -1 : REAL(fsync)(fd);
}

int fdatasync(int fd) {
    return file_fails(FSYNC, fd) ? -1 : REAL(fdatasync)(fd);
}

int ftruncate(int fd, off_t size) {
    return file_fails(TRUNCATE, fd) ? -1 : REAL(ftruncate)(fd, size);
}

int ftruncate64(int fd, off64_t size) {
    return file_fails(TRUNCATE, fd) ? -1 : REAL(ftruncate64)(fd, size);
}

int rename(const char *from, const char *to) {
    return path_fails(RENAME, to) ? -1 : REAL(rename)(from, to);
}

int renameat(int from_directory, const char *from, int to_directory, const char *to) {
    return path_fails(RENAME, to) ? -1 : REAL(renameat)(from_directory, from, to_directory, to);
}
