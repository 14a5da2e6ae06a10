// cooperative_groups of kernels on a CPU (cuda_on_cpu.h): a cluster of blocks.
#pragma once

#include "tests/kernels/on_cpu/cuda_on_cpu.h"

namespace cooperative_groups {

struct Cluster {
  void sync() const { engram::on_cpu::cluster_barrier().wait(); }
  // The same place in the shared memory of another block.
  template <class T>
  T* map_shared_rank(T* own, unsigned rank) const {
    const auto offset = reinterpret_cast<unsigned char*>(own) - engram::on_cpu::shared_memory();
    return reinterpret_cast<T*>(engram::on_cpu::shared_memory_of(rank) + offset);
  }
};
inline Cluster this_cluster() { return {}; }

}  // namespace cooperative_groups
