#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "experiments/statistics/score_table.h"
#include "tests/fuzz/target.h"

namespace engram {

std::vector<std::string> fuzz_seeds() {
  ScoreTable table("success", "a, \"b\"", {"t", "u\n"}, {"hqlt", "none"}, {0, 18446744073709551615u});
  table.at(0, 0, 0) = 0.1;
  table.at(1, 1, 1) = -1e-300;
  return {"", table.to_json(), table.to_csv(), "metric,units,task,method,seed,score\r\nm,,t,x,1,\r\nm,,t,x,2,0.5"};
}

}  // namespace engram

// As JSON, where it begins with a brace, or as CSV: what is taken is written and read back to the same table.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace engram;
  take_or_refuse([&] {
    const std::string text = text_of(data, size);
    const bool json = text.starts_with("{");
    const ScoreTable table = json ? ScoreTable::from_json(text, "it") : ScoreTable::from_csv(text, "it");
    require(ScoreTable::from_csv(table.to_csv(), "its copy") == table, "a table that CSV changes");
    if (json) require(ScoreTable::from_json(table.to_json(), "its copy") == table, "a table that JSON changes");
  });
  return 0;
}
