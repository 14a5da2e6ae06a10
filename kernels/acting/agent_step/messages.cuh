// Messages between the blocks of a cluster (compute capability 9.0): a store to another block's shared memory that the
// reader waits for by itself (st.async with an mbarrier of the reader's). Unlike a cluster's barrier it orders nothing
// else, so that it waits neither for stores to global memory nor empties the first-level cache.
#pragma once

#include <cstdint>

#include "kernels/acting/agent_step/product.cuh"

namespace engram {

// Counts the bytes that have come to a block's shared memory. It goes through phases: each is opened with the number of
// bytes to come, and ends when they are there. Bytes may come before the phase is opened, not before the last has
// ended.
class Mailbox {
 public:
  // Called by one thread, before any other of the cluster knows of it.
  __device__ void create() { asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address()) : "memory"); }
  // Called by one thread, when the last phase has ended.
  __device__ void open(int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address()), "r"(bytes) : "memory");
  }
  // Waits until phase `phase` has ended; phases are counted from 0 on, and the previous one has been waited for.
  __device__ void wait(int phase) const {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}\n" ::"r"(address()),
        "r"(phase & 1)
        : "memory");
  }
  __device__ std::uint32_t address() const { return static_cast<std::uint32_t>(__cvta_generic_to_shared(&barrier_)); }

 private:
  std::uint64_t barrier_;
};

// To be called before the cluster's barrier after which others may send.
__device__ inline void publish_mailboxes() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// An address of this block's shared memory in that of the cluster's block `rank`.
__device__ inline std::uint32_t address_at(std::uint32_t own, int rank) {
  std::uint32_t address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(own), "r"(rank));
  return address;
}

// Sends the first column of a tile, 16 values, to the first `blocks` blocks of the cluster, to where `to` and `mailbox`
// lie in this one's memory. By a warp: each lane sends four values to one block.
template <typename X>
__device__ inline void send_column(X* to, const Mailbox& mailbox, const Accumulator& tile, int blocks) {
  static_assert(kStepCluster == 8);
  const int rank = lane_id() / 4, part = lane_id() % 4;
  float x[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int source = (part * 4 + i) % 8 * 4;
    const float low = __shfl_sync(~0u, tile.x[0], source), high = __shfl_sync(~0u, tile.x[2], source);
    x[i] = part < 2 ? low : high;
  }
  if (rank >= blocks) return;
  const auto own = static_cast<std::uint32_t>(__cvta_generic_to_shared(to + part * 4));
  const std::uint32_t target = address_at(own, rank), counter = address_at(mailbox.address(), rank);
  if constexpr (sizeof(X) == 4)
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(target),
        "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]), "r"(counter)
        : "memory");
  else
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.u32 [%0], {%1, %2}, [%3];" ::"r"(target),
                 "r"(pack_bf16(x[0], x[1])), "r"(pack_bf16(x[2], x[3])), "r"(counter)
                 : "memory");
}

}  // namespace engram
