#include "kernels/recurrences/linear_recurrence/linear_recurrence.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <vector>

#include "tests/kernels/recurrences/linear_recurrence_case.h"

using namespace engram;
using namespace engram::testing;

namespace {

// The device's copy of a problem.
class DeviceRecurrence {
 public:
  DeviceRecurrence(const RecurrenceCase& c, RecurrenceImages& images)
      : images_(images),
        given_{c.batch,
               c.time,
               c.width,
               c.number,
               c.constant,
               images.a.tensor(memory_),
               images.h0.tensor(memory_),
               c.ragged ? memory_(images.length_B) : nullptr},
        b_(images.b.tensor(memory_)),
        h_(images.h.tensor(memory_)),
        last_(images.last.tensor(memory_)),
        output_{h_, images.d_h.tensor(memory_), images.d_last.tensor(memory_)},
        gradient_{images.d_a.tensor(memory_), images.d_b.tensor(memory_), images.d_h0.tensor(memory_)},
        scratch_(images.scratch) {}

  void run(cudaStream_t stream) {
    linear_recurrence_forward(given_, b_, h_, last_, stream);
    linear_recurrence_backward(given_, output_, gradient_, scratch_.data(), stream);
  }
  // What the kernels write becomes NaN.
  void poison_all() {
    for (const Image* image : images_.written()) memory_.poison(image->bytes);
    poison(scratch_, scratch_.size());
  }
  void fetch() { memory_.fetch(); }
  std::vector<Bytes> written() {
    fetch();
    std::vector<Bytes> bytes;
    for (const Image* image : images_.written()) bytes.push_back(image->bytes);
    return bytes;
  }

 private:
  RecurrenceImages& images_;
  DeviceMemory memory_;
  LinearRecurrence given_;
  void *b_, *h_, *last_;
  LinearRecurrenceOutput output_;
  LinearRecurrenceGradient gradient_;
  DeviceBytes scratch_;
};

void run_on_gpu(const RecurrenceCase& c, RecurrenceImages& images) {
  DeviceRecurrence device(c, images);
  device.run(nullptr);
  device.fetch();
}

// One of every kind of number and of a, over two blocks and several tiles.
std::vector<RecurrenceCase> some_cases() { return recurrence_cases({300}, {34, 63}); }

void check_step(int rows, int width, RecurrenceNumber number, bool constant, bool misaligned) {
  // A step is a sequence of one.
  RecurrenceCase c{rows, 1, width, number, constant};
  c.ragged = false, c.misaligned = misaligned, c.seed = 7;
  INFO(c.name());
  RecurrenceProblem p = make_recurrence(c);
  const ComplexNumbers expected = linear_recurrence_reference(p.input).last_BD;
  RecurrenceImages& images = p.images;
  DeviceMemory memory;
  linear_recurrence_step({rows, width, number, constant, images.a.tensor(memory), images.b.tensor(memory),
                          images.h0.tensor(memory), images.h.tensor(memory)},
                         nullptr);
  memory.fetch();
  CHECK(relative_error(images.h0.numbers(), expected) <= recurrence_bound(Dtype::kFloat32, constant));
  CHECK(relative_error(images.h.numbers(), expected) <= recurrence_bound(dtype_of(number), constant));
  CHECK(images.h0.margins_are_untouched());
  CHECK(images.h.margins_are_untouched());
}

}  // namespace

TEST_CASE("the linear recurrence and its gradients equal the definition's at every shape") {
  if (skip_without_gpu()) return;
  check_each(recurrence_cases({1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 781, 1025, 8192},
                              {1, 2, 16, 31, 32, 33, 34, 64, 100, 128}),
             [](const RecurrenceCase& c) { check_recurrence(c, run_on_gpu); });
}

TEST_CASE("many rows and channels: the linear recurrence") {
  if (skip_without_gpu()) return;
  for (const RecurrenceNumber number : kRecurrenceNumbers)
    for (const bool constant : {false, true}) {
      check_recurrence({700, 40, 100, number, constant}, run_on_gpu);
      check_recurrence({2, 300, 4099, number, constant}, run_on_gpu);
    }
}

// Few and small, so that compute-sanitizer can watch them.
TEST_CASE("small shapes: the linear recurrence") {
  if (skip_without_gpu()) return;
  for (const RecurrenceCase& c : recurrence_cases({1, 17, 130, 300}, {1, 2, 34, 63})) check_recurrence(c, run_on_gpu);
}

TEST_CASE("small shapes: a step of the linear recurrence") {
  if (skip_without_gpu()) return;
  for (const RecurrenceNumber number : kRecurrenceNumbers)
    for (const bool constant : {false, true})
      for (const int rows : {1, 3, 37})
        for (const int width : {1, 2, 63, 100, 128})
          for (const bool misaligned : {false, true}) check_step(rows, width, number, constant, misaligned);
}

TEST_CASE("NaN in one row of a linear recurrence reaches no other, and no earlier step") {
  if (skip_without_gpu()) return;
  for (const RecurrenceCase& base : some_cases()) {
    RecurrenceCase c = base;
    c.batch = 3, c.ragged = false;
    INFO(c.name());
    RecurrenceProblem p = make_recurrence(c);
    run_on_gpu(c, p.images);
    const ComplexNumbers expected = p.images.h.numbers();
    const std::size_t row = static_cast<std::size_t>(c.time) * c.width, bad = row + 150 * c.width;
    ComplexNumbers b = p.images.b.numbers();
    b[bad] = {kNaN, 0};
    p.images.b = Image(b, dtype_of(c.number), parts_of(c.number), c.misaligned);
    run_on_gpu(c, p.images);
    const ComplexNumbers actual = p.images.h.numbers();
    int wrong = 0;
    for (std::size_t i = 0; i < actual.size(); ++i) {
      const bool reached = i >= bad && i < 2 * row && (i - bad) % c.width == 0;
      wrong += reached ? !std::isnan(actual[i].real()) : actual[i] != expected[i];
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("the same linear recurrence gives the same bits 1,000 times, and replayed from a graph") {
  if (skip_without_gpu()) return;
  for (const RecurrenceCase& c : some_cases()) {
    INFO(c.name());
    RecurrenceProblem p = make_recurrence(c);
    DeviceRecurrence device(c, p.images);
    const auto run = [&] {
      device.poison_all();
      device.run(nullptr);
      return device.written();
    };
    CHECK(different_runs(run) == 0);
    const auto expected = run();
    CapturedGraph graph([&](cudaStream_t stream) { device.run(stream); });
    for (int i = 0; i < 3; ++i) {
      device.poison_all();
      graph.replay();
      CHECK(device.written() == expected);
    }
  }
}
