#define ENGRAM_CPU_SET avx2
#define ENGRAM_CPU_LANES 8
#include "nn/cpu/kernels.inc"
