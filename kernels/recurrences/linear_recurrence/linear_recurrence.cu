#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "kernels/block/gradient_sums.h"
#include "kernels/common/block_threads.h"
#include "kernels/recurrences/linear_recurrence/linear_recurrence.h"
#include "kernels/recurrences/linear_recurrence/walk.h"

namespace engram {
namespace {

using namespace recurrence;

constexpr int kMaxTime = 1 << 30;

template <class Unit, bool kConstant>
__global__ void __launch_bounds__(kThreads, 2) forward_kernel(const __grid_constant__ ForwardProblem<Unit> problem) {
  using OneWalk = ForwardWalk<Unit, kConstant>;
  __shared__ Shared<typename Unit::Value> shared;
  OneWalk walk(problem, blockIdx.x, threadIdx.x);
  OneThread threads(walk, shared);
  walk_tiles<OneWalk, /*kBackward=*/false>(threads, problem.rows.time);
}

template <class Unit, bool kConstant>
__global__ void __launch_bounds__(kThreads, 2) backward_kernel(const __grid_constant__ BackwardProblem<Unit> problem) {
  using OneWalk = BackwardWalk<Unit, kConstant>;
  __shared__ Shared<typename Unit::Value> shared;
  OneWalk walk(problem, blockIdx.x, threadIdx.x);
  OneThread threads(walk, shared);
  walk_tiles<OneWalk, /*kBackward=*/true>(threads, problem.rows.time);
  if constexpr (kConstant) add_up_constant(threads);
}

template <class Unit>
struct StepProblem {
  int rows, units;
  const typename Unit::Stored* a_NU;
  const typename Unit::Value* a_U;
  const typename Unit::Stored* b_NU;
  typename Unit::Value* h_NU;
  typename Unit::Stored* output_NU;
};

template <class Unit, bool kConstant>
__global__ void __launch_bounds__(kThreads) step_kernel(const __grid_constant__ StepProblem<Unit> problem) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x, units = problem.units;
  if (i >= problem.rows * units) return;
  typename Unit::Value a;
  if constexpr (kConstant)
    a = problem.a_U[i % units];
  else
    a = Unit::value(problem.a_NU[i]);
  const typename Unit::Value h = product_plus(a, problem.h_NU[i], Unit::value(problem.b_NU[i]));
  problem.h_NU[i] = h;
  problem.output_NU[i] = Unit::stored(h);
}

bool aligned(std::initializer_list<const void*> pointers, std::uintptr_t bytes) {
  return std::ranges::all_of(
      pointers, [&](const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0; });
}

// Calls function(Unit{}, whether a is constant). `sequences` are stored as `number`, `states` in float.
template <class Function>
void dispatch(RecurrenceNumber number, bool constant, int width, std::initializer_list<const void*> sequences,
              std::initializer_list<const void*> states, const Function& function) {
  const auto with = [&](auto unit) {
    if (constant)
      function(unit, std::true_type{});
    else
      function(unit, std::false_type{});
  };
  if (number == RecurrenceNumber::kFloat32)
    with(FloatUnit{});
  else if (number == RecurrenceNumber::kComplex64)
    with(ComplexUnit{});
  else if (number == RecurrenceNumber::kComplexBfloat16)
    with(ComplexBfloat16Unit{});
  else if (width % 2 == 0 && aligned(sequences, 4) && aligned(states, 8))
    with(Bfloat16PairUnit{});
  else
    with(Bfloat16Unit{});
}

int floats_of_channel(RecurrenceNumber number) {
  return number == RecurrenceNumber::kComplex64 || number == RecurrenceNumber::kComplexBfloat16 ? 2 : 1;
}

void check_shape(const LinearRecurrence& r) {
  const auto refuse = [&](const std::string& why) {
    throw std::runtime_error("linear recurrence: " + std::to_string(r.batch) + " rows of " + std::to_string(r.time) +
                             " steps of " + std::to_string(r.width) + " channels: " + why);
  };
  if (r.batch < 1 || r.time < 1 || r.width < 1) refuse("all must be positive");
  if (r.time > kMaxTime) refuse("more than " + std::to_string(kMaxTime) + " steps");
  constexpr int kFewestLanes = Bfloat16PairUnit::kLanes;
  if (std::int64_t{r.batch} * ((r.width + kFewestLanes - 1) / kFewestLanes) > std::numeric_limits<int>::max() ||
      r.width > std::numeric_limits<int>::max() / floats_of_channel(r.number))
    refuse("more channels than a launch takes");
}

template <class Unit>
Rows<Unit> rows_of(const LinearRecurrence& r) {
  return {r.time,
          r.width / Unit::kChannels,
          r.constant ? nullptr : static_cast<const typename Unit::Stored*>(r.a),
          r.constant ? static_cast<const typename Unit::Value*>(r.a) : nullptr,
          static_cast<const typename Unit::Value*>(r.h0_BD),
          r.length_B};
}
template <class Unit>
unsigned blocks_of(const LinearRecurrence& r) {
  return static_cast<unsigned>(r.batch) * static_cast<unsigned>(rows_of<Unit>(r).groups());
}

}  // namespace

void linear_recurrence_forward(const LinearRecurrence& recurrence, const void* b_BTD, void* h_BTD, void* last_BD,
                               cudaStream_t stream) {
  const LinearRecurrence& r = recurrence;
  check_shape(r);
  dispatch(r.number, r.constant, r.width, {r.constant ? nullptr : r.a, b_BTD, h_BTD},
           {r.constant ? r.a : nullptr, r.h0_BD, last_BD}, [&](auto unit, auto constant) {
             using Unit = decltype(unit);
             const ForwardProblem<Unit> problem{rows_of<Unit>(r), static_cast<const typename Unit::Stored*>(b_BTD),
                                                static_cast<typename Unit::Stored*>(h_BTD),
                                                static_cast<typename Unit::Value*>(last_BD)};
             forward_kernel<Unit, constant.value><<<blocks_of<Unit>(r), kThreads, 0, stream>>>(problem);
           });
  check_cuda(cudaGetLastError(), "linear_recurrence_forward");
}

std::size_t linear_recurrence_backward_scratch_bytes(const LinearRecurrence& recurrence) {
  check_shape(recurrence);
  if (!recurrence.constant) return 0;
  return sizeof(float) * floats_of_channel(recurrence.number) * recurrence.batch * recurrence.width;
}

void linear_recurrence_backward(const LinearRecurrence& recurrence, const LinearRecurrenceOutput& output,
                                const LinearRecurrenceGradient& gradient, void* scratch, cudaStream_t stream) {
  const LinearRecurrence& r = recurrence;
  check_shape(r);
  dispatch(
      r.number, r.constant, r.width,
      {r.constant ? nullptr : r.a, output.h_BTD, output.h_gradient_BTD, r.constant ? nullptr : gradient.a,
       gradient.b_BTD},
      {r.constant ? r.a : nullptr, r.h0_BD, output.last_gradient_BD, gradient.h0_BD, r.constant ? scratch : nullptr},
      [&](auto unit, auto constant) {
        using Unit = decltype(unit);
        using Stored = typename Unit::Stored;
        using Value = typename Unit::Value;
        const BackwardProblem<Unit> problem{rows_of<Unit>(r),
                                            static_cast<const Stored*>(output.h_BTD),
                                            static_cast<const Stored*>(output.h_gradient_BTD),
                                            static_cast<const Value*>(output.last_gradient_BD),
                                            r.constant ? nullptr : static_cast<Stored*>(gradient.a),
                                            static_cast<Stored*>(gradient.b_BTD),
                                            static_cast<Value*>(scratch),
                                            static_cast<Value*>(gradient.h0_BD)};
        backward_kernel<Unit, constant.value><<<blocks_of<Unit>(r), kThreads, 0, stream>>>(problem);
      });
  check_cuda(cudaGetLastError(), "linear_recurrence_backward");
  if (r.constant) {
    const int columns = floats_of_channel(r.number) * r.width;
    add_up({vector_sum(static_cast<const float*>(scratch), r.batch, columns, columns, static_cast<float*>(gradient.a))},
           stream);
  }
}

void linear_recurrence_step(const LinearRecurrenceStep& step, cudaStream_t stream) {
  if (step.rows < 1 || step.width < 1 || std::int64_t{step.rows} * step.width > std::numeric_limits<int>::max())
    throw std::runtime_error("linear recurrence step: " + std::to_string(step.rows) + " rows of " +
                             std::to_string(step.width) + " channels");
  dispatch(step.number, step.constant, step.width, {step.constant ? nullptr : step.a, step.b_ND, step.output_ND},
           {step.constant ? step.a : nullptr, step.h_ND}, [&](auto unit, auto constant) {
             using Unit = decltype(unit);
             using Stored = typename Unit::Stored;
             using Value = typename Unit::Value;
             const int units = step.width / Unit::kChannels;
             const StepProblem<Unit> problem{step.rows,
                                             units,
                                             constant.value ? nullptr : static_cast<const Stored*>(step.a),
                                             constant.value ? static_cast<const Value*>(step.a) : nullptr,
                                             static_cast<const Stored*>(step.b_ND),
                                             static_cast<Value*>(step.h_ND),
                                             static_cast<Stored*>(step.output_ND)};
             const std::int64_t threads = std::int64_t{step.rows} * units;
             step_kernel<Unit, constant.value>
                 <<<static_cast<unsigned>((threads + kThreads - 1) / kThreads), kThreads, 0, stream>>>(problem);
           });
  check_cuda(cudaGetLastError(), "linear_recurrence_step");
}

}  // namespace engram
