// Observations as numbers: bytes and floats, quantities and tokens, against the definition.
#include "kernels/block/observation_rows.h"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tests/kernels/block/block_test.h"

using namespace engram;
using namespace engram::testing;

namespace {

using Part = ObservationRows::Part;

ObservationRows input_of(int rows, const std::vector<Part>& parts, int stride) {
  ObservationRows input{.rows = rows,
                        .parts = static_cast<int>(parts.size()),
                        .beside_parts = 0,
                        .part = {},
                        .bytes = true,
                        .x = nullptr,
                        .beside = nullptr,
                        .stride = stride,
                        .dtype = Dtype::kFloat32};
  for (std::size_t i = 0; i < parts.size() && i < std::size(input.part); ++i) input.part[i] = parts[i];
  return input;
}

// Tokens run to one more than there are, which is none of them.
double value_of(const Part& part, std::size_t i, bool bytes) {
  if (part.values > 0) return static_cast<double>(i * 37 % (static_cast<std::size_t>(part.values) + 1));
  return bytes ? static_cast<double>((i * 37 + i / 256) % 256) : 0.25 * static_cast<double>(i % 1001) - 100;
}

// The last `beside_parts` of the parts lie beside the observation.
void check_rows(int rows, const std::vector<Part>& parts, int stride, bool bytes, Dtype dtype,
                std::size_t beside_parts = 0) {
  Bytes x_bytes;
  Numbers x_floats, beside_floats;
  Numbers expected(std::size_t{1} * rows * stride);
  std::size_t i = 0;
  for (int row = 0; row < rows; ++row) {
    std::size_t to = std::size_t{1} * row * stride;
    for (std::size_t p = 0; p < parts.size(); ++p)
      for (int element = 0; element < parts[p].elements; ++element, ++i) {
        const Part& part = parts[p];
        const bool beside = p + beside_parts >= parts.size(), byte = bytes && !beside;
        const double value = value_of(part, i, byte);
        if (beside) {
          beside_floats.push_back(value);
        } else {
          x_bytes.push_back(static_cast<unsigned char>(byte ? value : 0));
          x_floats.push_back(value);
        }
        if (part.values == 0) {
          const auto number = static_cast<float>(value);
          expected[to++] = rounded(byte ? number / 255.0f : number, dtype);
        } else {
          for (int token = 0; token < part.values; ++token) expected[to++] = value == token ? 1 : 0;
        }
      }
  }
  const DeviceBytes x = bytes ? DeviceBytes(x_bytes) : upload(x_floats, Dtype::kFloat32),
                    beside = upload(beside_floats, Dtype::kFloat32);
  ObservationRows input = input_of(rows, parts, stride);
  input.beside_parts = static_cast<int>(beside_parts);
  input.beside = floats(beside);
  input.bytes = bytes;
  input.x = x.data();
  input.dtype = dtype;
  DeviceBytes y = poisoned(expected.size(), dtype);
  observation_rows(input, y.data(), nullptr);
  CHECK(download(y, dtype) == expected);
}

}  // namespace

TEST_CASE("observations of quantities and tokens become numbers, padded with zeros") {
  if (skip_without_gpu()) return;
  for (const Dtype dtype : kDtypes)
    for (const bool bytes : {true, false}) {
      CAPTURE(bytes);
      check_rows(1, {{1, 0}}, 16, bytes, dtype);
      check_rows(3, {{8, 0}}, 8, bytes, dtype);
      check_rows(700, {{75, 0}}, 80, bytes, dtype);
      check_rows(33, {{64, 0}}, 64, bytes, dtype);
      check_rows(129, {{5, 3}}, 16, bytes, dtype);
      check_rows(70, {{49, 11}, {49, 6}, {49, 4}}, 1040, bytes, dtype);
      check_rows(3, {{2, 0}, {4, 7}, {3, 0}, {1, 1}, {1, 0}, {1, 2}, {1, 0}, {2, 2}}, 48, bytes, dtype);
      check_rows(700, {{1, 4}, {1, 4}, {1, 2}}, 16, bytes, dtype, 2);
      check_rows(33, {{3, 0}, {2, 5}, {2, 0}, {1, 3}}, 32, bytes, dtype, 2);
      check_rows(5, {{7, 0}, {1, 0}, {2, 3}, {1, 0}, {1, 2}, {1, 0}, {1, 0}, {1, 2}}, 32, bytes, dtype, 7);
    }
}

TEST_CASE("rows of observations outside the contract are refused") {
  if (skip_without_gpu()) return;
  const auto beside = [](int parts) {
    ObservationRows input = input_of(1, {{3, 0}, {1, 2}}, 16);
    input.beside_parts = parts;
    return input;
  };
  for (const auto& [input, why] : {std::pair(input_of(1, {}, 16), "no part"),
                                   {beside(2), "no part of an observation"},
                                   {beside(-1), "a negative number of parts beside it"},
                                   {input_of(1, std::vector<Part>(9, {1, 0}), 16), "nine parts"},
                                   {input_of(1, {{3, 6}}, 16), "18 columns in 16"},
                                   {input_of(1, {{3, 0}}, 12), "rows of 12"},
                                   {input_of(0, {{3, 0}}, 16), "no row"},
                                   {input_of(1, {{0, 0}}, 16), "no element"},
                                   {input_of(1, {{1, -1}}, 16), "a negative number of tokens"}}) {
    CAPTURE(why);
    CHECK_THROWS_AS(observation_rows(input, nullptr, nullptr), std::runtime_error);
  }
}
