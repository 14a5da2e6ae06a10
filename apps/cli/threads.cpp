#include "apps/cli/threads.h"

#include <ATen/Parallel.h>

#include <mutex>

#include "base/machine/processors.h"

namespace engram {

int use_threads(int threads) {
  const int count = threads > 0 ? threads : available_processors();
  at::set_num_threads(count);
  // It may be set only once, and runs may begin beside each other.
  static std::once_flag interop;
  std::call_once(interop, [] {
    if (at::get_num_interop_threads() != 1) at::set_num_interop_threads(1);
  });
  return count;
}

}  // namespace engram
