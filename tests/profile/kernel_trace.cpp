// What a program launches on a GPU and how long it takes there, without any other profiler: a library that the driver
// loads into it (CUDA_INJECTION64_PATH), built on CUPTI's activity records, which come from graphs, too.
// docs/develop/developing.md says how it is used; kernel_table.py reads what it writes. Tab-separated, in the order of
// CUPTI's buffers, times in ns:
//   K begin end stream grid threads shared_bytes registers name     a kernel; grid as x,y,z, shared memory of a block
//   C begin end stream - - bytes - memcpy                           a copy
//   S begin end stream - - bytes - memset
// Environment: KERNEL_TRACE, the file; KERNEL_TRACE_LAST, how many records are kept, the last ones (20,000).
#include <cupti.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <string>

namespace {

class Trace {
 public:
  void add(const CUpti_Activity* record) {
    switch (record->kind) {
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
        const auto* const k = reinterpret_cast<const CUpti_ActivityKernel10*>(record);
        const std::string grid =
            std::to_string(k->gridX) + "," + std::to_string(k->gridY) + "," + std::to_string(k->gridZ);
        add('K', k->start, k->end, k->streamId, grid, std::to_string(k->blockX * k->blockY * k->blockZ),
            static_cast<std::uint64_t>(k->staticSharedMemory + k->dynamicSharedMemory),
            std::to_string(k->registersPerThread), k->name);
        break;
      }
      case CUPTI_ACTIVITY_KIND_MEMCPY: {
        const auto* const copy = reinterpret_cast<const CUpti_ActivityMemcpy6*>(record);
        add('C', copy->start, copy->end, copy->streamId, "-", "-", copy->bytes, "-", "memcpy");
        break;
      }
      case CUPTI_ACTIVITY_KIND_MEMSET: {
        const auto* const set = reinterpret_cast<const CUpti_ActivityMemset4*>(record);
        add('S', set->start, set->end, set->streamId, "-", "-", set->bytes, "-", "memset");
        break;
      }
      default:
        break;
    }
  }

  void write(const char* path) const {
    std::FILE* const file = std::fopen(path, "w");
    if (file == nullptr) {
      std::fprintf(stderr, "kernel trace: '%s' cannot be written\n", path);
      return;
    }
    for (const std::string& line : lines_) std::fprintf(file, "%s\n", line.c_str());
    std::fclose(file);
  }

 private:
  void add(char kind, std::uint64_t begin, std::uint64_t end, std::uint32_t stream, const std::string& grid,
           const std::string& threads, std::uint64_t bytes, const std::string& registers, const char* name) {
    lines_.push_back(std::string(1, kind) + "\t" + std::to_string(begin) + "\t" + std::to_string(end) + "\t" +
                     std::to_string(stream) + "\t" + grid + "\t" + threads + "\t" + std::to_string(bytes) + "\t" +
                     registers + "\t" + name);
    if (lines_.size() > most_) lines_.pop_front();
  }

  static std::size_t most() {
    const char* const text = std::getenv("KERNEL_TRACE_LAST");
    return text != nullptr ? std::strtoull(text, nullptr, 10) : 20'000;
  }

  std::deque<std::string> lines_;
  std::size_t most_ = most();
};

std::mutex tracing;
Trace& trace() {
  static auto* const only = new Trace;  // CUPTI may still call when static objects have gone
  return *only;
}

void give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
  *size = 4 << 20;
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, *size));
  *most_records = 0;
}

void take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  const std::lock_guard lock(tracing);
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) trace().add(record);
  std::free(buffer);
}

void finish() {
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  const std::lock_guard lock(tracing);
  trace().write(std::getenv("KERNEL_TRACE"));
}

}  // namespace

// The driver calls it when it is initialised. 1: go on.
extern "C" int InitializeInjection() {
  if (std::getenv("KERNEL_TRACE") == nullptr) return 1;
  cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
  for (const CUpti_ActivityKind kind :
       {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET})
    if (const CUptiResult result = cuptiActivityEnable(kind); result != CUPTI_SUCCESS) {
      const char* reason = "";
      cuptiGetResultString(result, &reason);
      std::fprintf(stderr, "kernel trace: %s\n", reason);
      return 1;
    }
  std::atexit(finish);
  return 1;
}
