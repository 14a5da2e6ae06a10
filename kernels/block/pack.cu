#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>

#include "kernels/block/pack.h"
#include "kernels/common/launch_parts.cuh"

namespace engram {
namespace {

constexpr int kThreads = 256;

// Rows of a packed matrix: those from a segment's first to the next segment, or to the end.
struct Strip {
  const float* matrix;
  void* data;  // the first row
  Dtype dtype;
  int height, width;
  PackGroups rows, columns;
  int first_block;
};

struct Launch {
  Strip strip[kPackSegmentsOfLaunch];
  int count;
};
static_assert(sizeof(Launch) <= 4096, "more than a launch's parameters hold");

// One thread for each element.
__global__ void __launch_bounds__(kThreads) pack_kernel(const __grid_constant__ Launch launch) {
  const Strip& strip = launch.strip[part_of_block<kPackSegmentsOfLaunch>(
      launch.count, [&](int i) { return launch.strip[i].first_block; })];
  const int i = (static_cast<int>(blockIdx.x) - strip.first_block) * kThreads + static_cast<int>(threadIdx.x);
  if (i >= strip.height * strip.width) return;
  const int row = strip.rows.index(i / strip.width), column = strip.columns.index(i % strip.width);
  const float x = row >= 0 && column >= 0 ? strip.matrix[std::int64_t{row} * strip.columns.count + column] : 0.0f;
  if (strip.dtype == Dtype::kFloat32)
    static_cast<float*>(strip.data)[i] = x;
  else
    static_cast<__nv_bfloat16*>(strip.data)[i] = __float2bfloat16(x);
}

// Appends the strips of a matrix, in the order of their rows.
void add_strips(const PackedMatrix& packed, std::vector<Strip>& strips) {
  const auto refuse = [&](const std::string& what) {
    throw std::runtime_error("pack: " + what + " in " + std::to_string(packed.rows) + " x " +
                             std::to_string(packed.columns));
  };
  if (packed.rows < 1 || packed.columns < 1 || packed.segments.empty() ||
      std::int64_t{packed.rows} * packed.columns > 1 << 30)
    refuse(std::to_string(packed.segments.size()) + " segments");
  std::vector<PackSegment> segments = packed.segments;
  std::ranges::sort(segments, {}, &PackSegment::first_row);
  if (segments.front().first_row != 0) refuse("no segment at row 0");
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const PackSegment& segment = segments[i];
    const int end = i + 1 < segments.size() ? segments[i + 1].first_row : packed.rows;
    if (segment.first_row + segment.rows.size() > end || segment.columns.size() > packed.columns)
      refuse("a segment of " + std::to_string(segment.rows.size()) + " x " + std::to_string(segment.columns.size()) +
             " at row " + std::to_string(segment.first_row) + " of " + std::to_string(end));
    const std::size_t offset = dtype_bytes(packed.dtype) * segment.first_row * packed.columns;
    strips.push_back({.matrix = segment.matrix,
                      .data = static_cast<char*>(packed.data) + offset,
                      .dtype = packed.dtype,
                      .height = end - segment.first_row,
                      .width = packed.columns,
                      .rows = segment.rows,
                      .columns = segment.columns,
                      .first_block = 0});
  }
}

}  // namespace

void pack(const std::vector<PackedMatrix>& packed, cudaStream_t stream) {
  std::vector<Strip> strips;
  for (const PackedMatrix& matrix : packed) add_strips(matrix, strips);
  for (std::size_t begin = 0; begin < strips.size(); begin += kPackSegmentsOfLaunch) {
    Launch launch{};
    launch.count = static_cast<int>(std::min<std::size_t>(kPackSegmentsOfLaunch, strips.size() - begin));
    std::int64_t blocks = 0;
    for (int i = 0; i < launch.count; ++i) {
      Strip& strip = launch.strip[i] = strips[begin + static_cast<std::size_t>(i)];
      strip.first_block = static_cast<int>(blocks);
      blocks += (strip.height * strip.width + kThreads - 1) / kThreads;
    }
    pack_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(launch);
    check_cuda(cudaGetLastError(), "pack");
  }
}

}  // namespace engram
