// How ragged episodes are computed without computing mostly padding: those of about the same length together. A
// minibatch comes in such parts to Learner::update_in_parts(), which makes one step of all of them.
//
// Of a batch of which one episode is 600 steps long and the others 20, all but a few rows are padding.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace engram {

// Whether episodes are worth parts: in one batch, as long as the longest, less than a third of the rows would be steps.
// Parts of few shapes have rows to spare as well (about one for each step), and more kernels to launch.
inline bool are_ragged(std::int64_t episodes, std::int64_t steps, std::int64_t longest) {
  return episodes * longest > 3 * steps;
}

struct BatchPart {
  std::vector<std::int64_t> episodes;
  std::int64_t steps;  // T, of each as many or fewer
  std::int64_t rows;   // B; after the episodes come empty ones
};

class BatchParts {
 public:
  // On a CPU parts may have any shape. On a GPU each shape has a recording of its own: T is a task's longest, halved up
  // to six times, and B such that a part has about `part_steps` steps.
  BatchParts(std::int64_t longest, std::int64_t part_steps, torch::Device device);

  // The longest episodes first; those of the same length in their order. steps_of: of an episode, 1 to `longest`.
  std::vector<BatchPart> deal(std::vector<std::int64_t> episodes,
                              const std::function<std::int64_t(std::int64_t)>& steps_of) const;

 private:
  struct Shape {
    std::int64_t steps, rows;
  };
  std::vector<Shape> shapes_;  // the longest first; none: any
};

}  // namespace engram
