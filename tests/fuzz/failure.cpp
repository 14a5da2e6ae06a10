#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "storage/run/run_failure.h"
#include "tests/fuzz/target.h"

namespace engram {

std::vector<std::string> fuzz_seeds() {
  return {"", "the loss is not finite\n", "{\"kind\": \"diverged\", \"reason\": \"update 3: the loss\"}\n",
          "{\"kind\": \"out of memory\", \"reason\": \"\", \"more\": [1, {\"a\": null}]}\n"};
}

}  // namespace engram

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace engram;
  take_or_refuse([&] {
    const RunFailure failure = parse_failure(text_of(data, size));
    require(failure_kind(failure_name(failure.kind)) == failure.kind, "a kind that has no name");
    require(failure.reason.find('\n') == std::string::npos, "a reason of several lines");
  });
  return 0;
}
