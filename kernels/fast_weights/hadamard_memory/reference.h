// Stable Hadamard Memory in double precision on the CPU, element by element: what the kernels are tested against.
// Formula and dimensions as in hadamard_memory.h.
#pragma once

#include <limits>
#include <vector>

namespace engram {

struct HadamardMemoryReferenceInput {
  int batch, time, width;
  std::vector<double> theta_BTH, c_BTH, value_BTH, key_BTH, query_BTH, first_BHH;
  std::vector<int> length_B;
  double limit;
};

struct HadamardMemoryReferenceOutput {
  std::vector<double> h_BTH;  // zero from length_B on
  std::vector<double> last_BHH;
  // How near an element came to the limit, before it was bounded; infinity where nothing is written or there is none.
  double distance_to_limit = std::numeric_limits<double>::infinity();
};

struct HadamardMemoryReferenceGradient {
  std::vector<double> theta_BTH, c_BTH, value_BTH, key_BTH, query_BTH, first_BHH;
};

HadamardMemoryReferenceOutput hadamard_memory_reference(const HadamardMemoryReferenceInput& input);

// The gradient of sum(output_gradient.h h) + sum(output_gradient.last last). That of h beyond a row's length is not
// used.
HadamardMemoryReferenceGradient hadamard_memory_reference_backward(
    const HadamardMemoryReferenceInput& input, const HadamardMemoryReferenceOutput& output_gradient);

}  // namespace engram
