#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "agents/study/evaluation_range.h"
#include "tests/fuzz/target.h"

namespace engram {

std::vector<std::string> fuzz_seeds() {
  const MeasuredEpisodes measured{{0.5, 0.25, 0.75}, {1.5, 1, 2}};
  return {
      RangeEvaluations{}.to_json(), RangeEvaluations{300, 75, 20, {{"task.a", 10, measured, measured}}}.to_json(),
      RangeEvaluations{3, 7, 1, {{"task.a", -0.5, measured, measured}, {"task.b", 1e9, measured, measured}}}.to_json()};
}

}  // namespace engram

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace engram;
  take_or_refuse([&] {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const RangeEvaluations evaluations = RangeEvaluations::from_json(text, "it");
    require(evaluations.environment_steps >= 0 && evaluations.updates >= 0 && evaluations.episodes >= 0,
            "a negative count");
    for (const RangePoint& point : evaluations.points)
      for (const MeasuredEpisodes* measured : {&point.greedy, &point.sampled})
        require(measured->success.estimate >= 0 && measured->success.estimate <= 1, "a rate that is none");
    const std::string copy = evaluations.to_json();
    require(RangeEvaluations::from_json(copy, "its copy").to_json() == copy, "evaluations that change: " + copy);
  });
  return 0;
}
