// Random linear recurrences as bytes in memory, with NaN in all that a kernel must not read and around all that it
// writes; how a result is compared with the definition in double precision.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/recurrences/linear_recurrence/linear_recurrence.h"
#include "kernels/recurrences/linear_recurrence/reference.h"
#include "tests/kernels/common/gpu_test.h"

namespace engram::testing {

struct RecurrenceCase {
  int batch, time, width;
  RecurrenceNumber number = RecurrenceNumber::kFloat32;
  bool constant = false;
  bool ragged = true;       // lengths 0 .. T, the first row's T
  bool last = true;         // the last h is written and has a gradient
  bool misaligned = false;  // to an element alone
  unsigned seed = 0;

  std::string name() const {
    const char* const names[] = {"float", "bfloat16", "complex", "complex bfloat16"};
    return joined("B ", batch, " T ", time, " D ", width, " ", names[static_cast<int>(number)],
                  constant ? ", constant a" : "", ragged ? ", ragged" : "", last ? ", last" : "",
                  misaligned ? ", misaligned" : "");
  }
};

// How sequences are stored, and what numbers consist of.
inline Dtype dtype_of(RecurrenceNumber number) {
  return number == RecurrenceNumber::kBfloat16 || number == RecurrenceNumber::kComplexBfloat16 ? Dtype::kBfloat16
                                                                                               : Dtype::kFloat32;
}
constexpr RecurrenceNumber kRecurrenceNumbers[] = {RecurrenceNumber::kFloat32, RecurrenceNumber::kBfloat16,
                                                   RecurrenceNumber::kComplex64, RecurrenceNumber::kComplexBfloat16};
inline int parts_of(RecurrenceNumber number) {
  return number == RecurrenceNumber::kComplex64 || number == RecurrenceNumber::kComplexBfloat16 ? 2 : 1;
}

// A tensor's bytes between margins of 0xff.
class Image {
 public:
  Image() = default;
  Image(const ComplexNumbers& numbers, Dtype dtype, int parts, bool misaligned)
      : dtype_(dtype), parts_(parts), begin_(kMargin + (misaligned ? dtype_bytes(dtype) * parts : 0)) {
    Numbers flat;
    for (const std::complex<double>& x : numbers) {
      flat.push_back(x.real());
      if (parts == 2) flat.push_back(x.imag());
    }
    const Bytes tensor = encode(flat, dtype);
    size_ = tensor.size();
    bytes.assign(begin_ + size_ + kMargin, 0xff);
    std::copy(tensor.begin(), tensor.end(), bytes.begin() + begin_);
  }

  // Where the tensor begins in `memory`.
  template <class Memory>
  void* tensor(Memory& memory) {
    unsigned char* const base = memory(bytes);
    return size_ == 0 ? nullptr : base + begin_;
  }
  ComplexNumbers numbers() const {
    const Numbers flat = decode({bytes.begin() + begin_, bytes.begin() + begin_ + size_}, dtype_);
    ComplexNumbers x(flat.size() / parts_);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = {flat[i * parts_], parts_ == 2 ? flat[i * parts_ + 1] : 0.0};
    return x;
  }
  bool margins_are_untouched() const {
    const auto untouched = [](unsigned char byte) { return byte == 0xff; };
    return std::all_of(bytes.begin(), bytes.begin() + begin_, untouched) &&
           std::all_of(bytes.begin() + begin_ + size_, bytes.end(), untouched);
  }

  Bytes bytes;

 private:
  static constexpr std::size_t kMargin = 64;
  Dtype dtype_ = Dtype::kFloat32;
  int parts_ = 1;
  std::size_t begin_ = 0, size_ = 0;
};

// Everything the kernels read and write. `last` and its gradient have no bytes where they are not wanted.
struct RecurrenceImages {
  Image a, b, h0, h, last, d_h, d_last, d_a, d_b, d_h0;
  std::vector<std::int64_t> length_B;  // empty: all T
  Bytes scratch;

  std::vector<const Image*> written() const { return {&h, &last, &d_a, &d_b, &d_h0}; }
  std::vector<const Image*> all() const { return {&a, &b, &h0, &h, &last, &d_h, &d_last, &d_a, &d_b, &d_h0}; }
};

struct RecurrenceProblem {
  LinearRecurrenceReferenceInput input;
  LinearRecurrenceReferenceOutput output_gradient;
  RecurrenceImages images;
};

// |a| < 1, half of them between 0.99 and 0.999: a memory of a hundred to a thousand steps.
inline RecurrenceProblem make_recurrence(const RecurrenceCase& c) {
  Rng rng(c.seed, Purpose::kTest, static_cast<unsigned>(c.width), static_cast<unsigned>(c.time));
  const bool is_complex = parts_of(c.number) == 2;
  const auto draw = [&](std::size_t size, Dtype dtype, const std::function<std::complex<double>()>& number) {
    ComplexNumbers x(size);
    for (std::complex<double>& element : x) {
      element = number();
      element = {rounded(element.real(), dtype), is_complex ? rounded(element.imag(), dtype) : 0.0};
    }
    return x;
  };
  const auto normal_number = [&] { return std::complex<double>(normal(rng), normal(rng)); };
  const auto factor = [&] {
    const double modulus = rng.uniform() < 0.5 ? 1 - 1e-3 * (1 + 9 * rng.uniform()) : rng.uniform();
    return is_complex ? std::polar(modulus, 6.283185307179586 * rng.uniform())
                      : std::complex<double>(rng.uniform() < 0.8 ? modulus : -modulus);
  };

  const Dtype stored = dtype_of(c.number);
  const std::size_t states = static_cast<std::size_t>(c.batch) * c.width, steps = states * c.time;
  RecurrenceProblem p;
  p.input.batch = c.batch, p.input.time = c.time, p.input.width = c.width, p.input.constant = c.constant;
  p.input.a = draw(c.constant ? c.width : steps, c.constant ? Dtype::kFloat32 : stored, factor);
  p.input.b_BTD = draw(steps, stored, normal_number);
  p.input.h0_BD = draw(states, Dtype::kFloat32, normal_number);
  p.input.length_B = c.ragged ? ragged_lengths(rng, c.batch, c.time) : std::vector<int>(c.batch, c.time);
  p.output_gradient.h_BTD = draw(steps, stored, normal_number);
  p.output_gradient.last_BD = c.last ? draw(states, Dtype::kFloat32, normal_number) : ComplexNumbers(states);

  const std::complex<double> nan(kNaN, kNaN);
  const auto sequence = [&](ComplexNumbers x) {
    for (std::size_t i = 0; i < x.size(); ++i)
      if (is_behind(p.input.length_B, c.time, i / c.width)) x[i] = nan;
    return Image(x, stored, parts_of(c.number), c.misaligned);
  };
  const auto state = [&](const ComplexNumbers& x) {
    return Image(x, Dtype::kFloat32, parts_of(c.number), c.misaligned);
  };
  const ComplexNumbers unknown_steps(steps, nan), unknown_states(states, nan), none;
  RecurrenceImages& images = p.images;
  images.a = c.constant ? state(p.input.a) : sequence(p.input.a);
  images.b = sequence(p.input.b_BTD);
  images.h0 = state(p.input.h0_BD);
  images.h = sequence(unknown_steps);
  images.last = state(c.last ? unknown_states : none);
  images.d_h = sequence(p.output_gradient.h_BTD);
  images.d_last = state(c.last ? p.output_gradient.last_BD : none);
  images.d_a = c.constant ? state(ComplexNumbers(c.width, nan)) : sequence(unknown_steps);
  images.d_b = sequence(unknown_steps);
  images.d_h0 = state(unknown_states);
  if (c.ragged) images.length_B.assign(p.input.length_B.begin(), p.input.length_B.end());
  images.scratch.assign(
      linear_recurrence_backward_scratch_bytes({c.batch, c.time, c.width, c.number, c.constant, {}, {}, {}}), 0xff);
  return p;
}

// As the contract has it, where `dtype` is written.
inline double recurrence_bound(Dtype dtype, bool constant) {
  return dtype == Dtype::kBfloat16 ? 0.005 : constant ? 2e-5 : 1e-6;
}

// Runs a case by run(case, images), which does both passes, and compares all that it wrote.
template <class Run>
void check_recurrence(const RecurrenceCase& c, const Run& run) {
  INFO(c.name());
  RecurrenceProblem p = make_recurrence(c);
  const LinearRecurrenceReferenceOutput expected = linear_recurrence_reference(p.input);
  const LinearRecurrenceReferenceGradient gradient = linear_recurrence_reference_backward(p.input, p.output_gradient);
  RecurrenceImages& images = p.images;
  run(c, images);
  const double stored = recurrence_bound(dtype_of(c.number), c.constant);
  const double state = recurrence_bound(Dtype::kFloat32, c.constant);
  // Of a few numbers that may happen to be small, an error is measured by what they are computed with as well.
  CHECK(relative_error(images.h.numbers(), expected.h_BTD) <= stored);
  if (c.last) CHECK(relative_error(images.last.numbers(), expected.last_BD, root_mean_square(expected.h_BTD)) <= state);
  // Of the h that was stored.
  CHECK(relative_error(images.d_a.numbers(), gradient.a, root_mean_square(gradient.a_moduli)) <= stored);
  CHECK(relative_error(images.d_b.numbers(), gradient.b_BTD) <= stored);
  CHECK(relative_error(images.d_h0.numbers(), gradient.h0_BD, root_mean_square(gradient.b_BTD)) <= state);
  for (const Image* image : images.all()) CHECK(image->margins_are_untouched());
}

// One step, a few tiles less or more than a step, and channels that fill no block, with every kind of number and of a.
inline std::vector<RecurrenceCase> recurrence_cases(std::vector<int> times, std::vector<int> widths) {
  std::vector<RecurrenceCase> cases;
  unsigned seed = 1;
  for (const RecurrenceNumber number : kRecurrenceNumbers)
    for (const bool constant : {false, true})
      for (const int time : times)
        for (const int width : widths) {
          RecurrenceCase c{1 + static_cast<int>(seed % 4), time, width, number, constant};
          c.ragged = seed % 5 != 0;
          c.last = seed % 3 != 0;
          c.misaligned = seed % 7 == 0;
          c.seed = seed++;
          cases.push_back(c);
        }
  return cases;
}

}  // namespace engram::testing
