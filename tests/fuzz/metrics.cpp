#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "agents/study/metrics_summary.h"
#include "tests/fuzz/target.h"

namespace engram {

std::vector<std::string> fuzz_seeds() {
  return {"",
          "{\"kind\":\"train\",\"environment_steps\":10,\"updates\":2.0,\"episodes\":3.0,\"skipped_updates\":0.0,"
          "\"return\":null}\n",
          "{\"kind\":\"evaluation\",\"environment_steps\":20,\"updates\":4.0,\"episodes\":5.0,\"return\":-1.5e3,"
          "\"success\":0.4}\n{\"kind\":\"final\",\"environment_steps\":20,\"updates\":4.0,\"episodes\":10.0,"
          "\"return\":1,\"success\":0.3,\"success_low\":0.1,\"success_high\":0.6}\n",
          "{\"kind\":\"evaluation\",\"environment_steps\":20,\"updates\":4.0,\"episodes\":5.0,\"return\":1,"
          "\"success\":0.4,\"sampled_return\":2,\"sampled_success\":0.2}\n{\"kind\":\"final\","
          "\"environment_steps\":20,\"updates\":4.0,\"episodes\":10.0,\"return\":1,\"success\":0.3,"
          "\"success_low\":0.1,\"success_high\":0.6,\"sampled_return\":null,\"sampled_success\":0.5,"
          "\"sampled_success_low\":0.2,\"sampled_success_high\":0.8}\n"};
}

}  // namespace engram

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace engram;
  take_or_refuse([&] {
    std::istringstream stream(text_of(data, size));
    const MetricsSummary summary = summarize_metrics(stream, "it");
    require(summary.steps >= 0 && summary.updates >= 0 && summary.episodes >= 0 && summary.skipped_updates >= 0,
            "a negative count");
    require(summary.last_evaluation.has_value() == !summary.evaluations.empty() &&
                summary.best_evaluation.has_value() == !summary.evaluations.empty(),
            "evaluations without a last or a best one");
    for (const auto& evaluation : {summary.last_evaluation, summary.best_evaluation})
      if (evaluation)
        for (const PlayedEpisodes& played : {evaluation->greedy, evaluation->sampled.value_or(PlayedEpisodes{})})
          require(played.success >= 0 && played.success <= 1, "a rate that is none");
  });
  return 0;
}
