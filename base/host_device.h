// HOST_DEVICE marks a function that is compiled for the CPU and, under nvcc, for the GPU as well.
#pragma once

#if defined(__CUDACC__)
#define HOST_DEVICE __host__ __device__
#else
#define HOST_DEVICE
#endif
