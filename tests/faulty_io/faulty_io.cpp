#include "tests/faulty_io/faulty_io.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>

namespace {

constexpr int kPathBytes = 4200;

struct Plan {
  char prefix[kPathBytes] = "";
  long nth = 0;
  int error = 0;
  bool stays = false;
  long calls = 0;
  const char* failed = "";
};
Plan plan;
std::mutex mutex;

__attribute__((constructor)) void read_environment() {
  const auto number = [](const char* name) {
    const char* const text = getenv(name);
    return text ? atol(text) : 0;
  };
  if (const char* const prefix = getenv("FAULTY_IO_PREFIX"))
    faulty_io_arm(prefix, number("FAULTY_IO_NTH"), static_cast<int>(number("FAULTY_IO_ERROR")),
                  number("FAULTY_IO_STAYS") != 0);
}

enum class Fate { kPass, kFail, kHalf };

// Where a descriptor leads; false if nowhere.
bool path_of(int descriptor, char (&path)[kPathBytes]) {
  char link[64];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", descriptor);
  const ssize_t length = readlink(link, path, sizeof(path) - 1);
  if (length >= 0) path[length] = '\0';
  return length >= 0;
}

// Counts the call on an absolute path and decides; kFail has set errno.
Fate decide(const char* path, const char* name, bool writes) {
  const std::lock_guard lock(mutex);
  if (plan.prefix[0] == '\0' || strncmp(path, plan.prefix, strlen(plan.prefix)) != 0) return Fate::kPass;
  ++plan.calls;
  if (plan.nth == 0 || plan.calls < plan.nth || (plan.calls > plan.nth && !plan.stays)) return Fate::kPass;
  if (plan.error == 0) return writes ? Fate::kHalf : Fate::kPass;
  plan.failed = name;
  if (plan.stays && writes && plan.calls == plan.nth) return Fate::kHalf;
  errno = plan.error;
  return Fate::kFail;
}

Fate decide(int descriptor, const char* name, bool writes = false) {
  char path[kPathBytes];
  return path_of(descriptor, path) ? decide(path, name, writes) : Fate::kPass;
}

// Of a path that may be relative to a folder, or to the current one (AT_FDCWD).
Fate decide_path(int folder, const char* path, const char* name) {
  if (path[0] == '/') return decide(path, name, false);
  char start[kPathBytes], whole[2 * kPathBytes];
  if (!(folder == AT_FDCWD ? getcwd(start, sizeof(start)) != nullptr : path_of(folder, start))) return Fate::kPass;
  snprintf(whole, sizeof(whole), "%s/%s", start, path);
  return decide(whole, name, false);
}

size_t half(size_t count) { return count > 1 ? count / 2 : count; }

template <class Function>
Function real(const char* name, Function) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

bool counts(int flags) { return (flags & (O_WRONLY | O_RDWR | O_CREAT | O_DIRECTORY)) != 0; }

mode_t mode_of(int flags, va_list arguments) { return (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0; }

}  // namespace

extern "C" {

void faulty_io_arm(const char* prefix, long nth, int error, bool stays) {
  const std::lock_guard lock(mutex);
  plan = Plan();
  snprintf(plan.prefix, sizeof(plan.prefix), "%s", prefix);
  plan.nth = nth;
  plan.error = error;
  plan.stays = stays;
}

void faulty_io_disarm() {
  const std::lock_guard lock(mutex);
  plan.prefix[0] = '\0';
}

long faulty_io_calls() { return plan.calls; }
const char* faulty_io_failed() { return plan.failed; }

#define FAULTY_OPEN(name)                                                               \
  int name(const char* path, int flags, ...) {                                          \
    va_list arguments;                                                                  \
    va_start(arguments, flags);                                                         \
    const mode_t mode = mode_of(flags, arguments);                                      \
    va_end(arguments);                                                                  \
    if (counts(flags) && decide_path(AT_FDCWD, path, "open") == Fate::kFail) return -1; \
    return real<int (*)(const char*, int, ...)>(#name, nullptr)(path, flags, mode);     \
  }
FAULTY_OPEN(open)
FAULTY_OPEN(open64)

#define FAULTY_OPENAT(name)                                                                      \
  int name(int folder, const char* path, int flags, ...) {                                       \
    va_list arguments;                                                                           \
    va_start(arguments, flags);                                                                  \
    const mode_t mode = mode_of(flags, arguments);                                               \
    va_end(arguments);                                                                           \
    if (counts(flags) && decide_path(folder, path, "openat") == Fate::kFail) return -1;          \
    return real<int (*)(int, const char*, int, ...)>(#name, nullptr)(folder, path, flags, mode); \
  }
FAULTY_OPENAT(openat)
FAULTY_OPENAT(openat64)

ssize_t write(int descriptor, const void* bytes, size_t count) {
  const Fate fate = decide(descriptor, "write", true);
  if (fate == Fate::kFail) return -1;
  return real<ssize_t (*)(int, const void*, size_t)>("write", nullptr)(descriptor, bytes,
                                                                       fate == Fate::kHalf ? half(count) : count);
}

#define FAULTY_PWRITE(name)                                                     \
  ssize_t name(int descriptor, const void* bytes, size_t count, off_t offset) { \
    const Fate fate = decide(descriptor, "pwrite", true);                       \
    if (fate == Fate::kFail) return -1;                                         \
    return real<ssize_t (*)(int, const void*, size_t, off_t)>(#name, nullptr)(  \
        descriptor, bytes, fate == Fate::kHalf ? half(count) : count, offset);  \
  }
FAULTY_PWRITE(pwrite)
FAULTY_PWRITE(pwrite64)

ssize_t writev(int descriptor, const iovec* parts, int count) {
  const Fate fate = decide(descriptor, "writev", true);
  if (fate == Fate::kFail) return -1;
  return real<ssize_t (*)(int, const iovec*, int)>("writev", nullptr)(descriptor, parts,
                                                                      fate == Fate::kHalf && count > 1 ? 1 : count);
}

#define FAULTY_SYNC(name)                                    \
  int name(int descriptor) {                                 \
    if (decide(descriptor, #name) == Fate::kFail) return -1; \
    return real<int (*)(int)>(#name, nullptr)(descriptor);   \
  }
FAULTY_SYNC(fsync)
FAULTY_SYNC(fdatasync)

#define FAULTY_TRUNCATE(name)                                             \
  int name(int descriptor, off_t length) {                                \
    if (decide(descriptor, "ftruncate") == Fate::kFail) return -1;        \
    return real<int (*)(int, off_t)>(#name, nullptr)(descriptor, length); \
  }
FAULTY_TRUNCATE(ftruncate)
FAULTY_TRUNCATE(ftruncate64)

int rename(const char* from, const char* to) {
  if (decide_path(AT_FDCWD, to, "rename") == Fate::kFail) return -1;
  return real<int (*)(const char*, const char*)>("rename", nullptr)(from, to);
}
}
