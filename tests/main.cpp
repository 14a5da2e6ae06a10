// Runs the chosen cases. Exit status:
//   1               a check failed; or no case was chosen; or some cases of a source were skipped and others were not,
//                   so that neither "passed" nor "skipped" would be true
//   kSkippedStatus  every case was skipped
//   0               otherwise
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <iostream>
#include <map>
#include <string>

#include "tests/skip.h"

namespace engram::testing {
namespace {

struct SourceCount {
  int cases = 0, skipped = 0;
};

std::map<std::string, SourceCount> sources;  // that a case has run of
bool case_is_skipped = false;                // the running one

// Counts cases while doctest runs them.
class SkipCounter final : public doctest::IReporter {
 public:
  explicit SkipCounter(const doctest::ContextOptions&) {}

  void test_case_start(const doctest::TestCaseData& data) override {
    source_ = data.m_file.c_str();
    case_is_skipped = false;
  }
  void test_case_end(const doctest::CurrentTestCaseStats&) override {
    ++sources[source_].cases;
    if (case_is_skipped) ++sources[source_].skipped;
  }

  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}

 private:
  std::string source_;
};
REGISTER_LISTENER("skips", 1, SkipCounter);

int status_of_counts() {
  int cases = 0, skipped = 0;
  for (const auto& [source, count] : sources) {
    if (count.skipped > 0 && count.skipped < count.cases) {
      std::cout << source << ": " << count.skipped << " of " << count.cases
                << " cases were skipped; cases that run everywhere belong in a source of their own" << std::endl;
      return 1;
    }
    cases += count.cases;
    skipped += count.skipped;
  }
  if (cases == 0) {
    std::cout << "no test case was chosen" << std::endl;
    return 1;
  }
  return skipped == cases ? kSkippedStatus : 0;
}

}  // namespace

void skip_case(const std::string& reason) {
  if (!case_is_skipped) std::cout << "skipped: " << reason << std::endl;
  case_is_skipped = true;
}

}  // namespace engram::testing

int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  const int status = context.run();
  if (status != 0 || context.shouldExit()) return status;
  return engram::testing::status_of_counts();
}
