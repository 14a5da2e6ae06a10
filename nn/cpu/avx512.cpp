#define ENGRAM_CPU_SET avx512
#define ENGRAM_CPU_LANES 16
#include "nn/cpu/kernels.inc"
