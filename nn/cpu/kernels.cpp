#include "nn/cpu/kernels.h"

namespace engram::cpu {

namespace baseline {
extern const Kernels kAll;
}
#ifdef ENGRAM_CPU_X86_64
namespace avx2 {
extern const Kernels kAll;
}
namespace avx512 {
extern const Kernels kAll;
}
#endif

namespace {

struct Usable {
  const Kernels* all[4] = {};  // null after the last

  Usable() {
    int count = 0;
#ifdef ENGRAM_CPU_X86_64
    __builtin_cpu_init();
    const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                          __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    if (has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
      all[count++] = &avx512::kAll;
    if (has_avx2) all[count++] = &avx2::kAll;
#endif
    all[count] = &baseline::kAll;
  }
};

const Usable& usable() {
  static const Usable found;
  return found;
}

}  // namespace

const Kernels& kernels() { return *usable().all[0]; }

const Kernels* usable_kernels(int index) { return usable().all[index]; }

}  // namespace engram::cpu
