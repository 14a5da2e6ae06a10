#define ENGRAM_CPU_SET baseline
#define ENGRAM_CPU_LANES 4
#include "nn/cpu/kernels.inc"
