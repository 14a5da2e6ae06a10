#include "apps/look/diagnose_report.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <utility>

#include "tests/agents/study/single_phase.h"

using namespace engram;

namespace {

RunDiagnosis found(bool values_are_of_actions) {
  RunDiagnosis findings;
  findings.greedy = findings.sampled = testing::single_phase(values_are_of_actions);
  findings.why_none_replayed = "no checkpoint";
  return findings;
}

bool reads(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("tables of values of actions speak of Q, those of values of states of V") {
  const std::string q = findings_text(found(true), 0.5), v = findings_text(found(false), 0.5);
  CHECK(reads(q,
              "\nQ at the deciding step: area under the curve of right against wrong decisions; chance 0.5\n"
              "greedy        0.750  4 right, 6 wrong\n"));
  CHECK(reads(q,
              "\nCritic loss, entropy of the policy (nats) and mean |Q| by phase of the task\n"
              "greedy     phase                steps   critic loss  share, %   entropy         |Q|\n"
              "           junction                20           0.5     100.0     0.250       0.125\n"));
  CHECK(reads(q, "replayed   none: no checkpoint\nchance                50.0\n"));
  // Nothing else differs.
  std::string renamed = v;
  for (const auto& [from, to] : {std::pair("\nV at", "\nQ at"), {"|V|", "|Q|"}})
    for (std::size_t at; (at = renamed.find(from)) != std::string::npos;)
      renamed.replace(at, std::string(from).size(), to);
  CHECK(renamed == q);
  CHECK(!reads(v, "Q"));
}
