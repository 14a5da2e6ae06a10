// Weights, checkpoints and traces are all safetensors files.
#include "storage/tensors/safetensors.h"

#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "storage/tensors/safetensors_summary.h"
#include "tests/fuzz/target.h"

namespace engram {
namespace {

std::string saved(const TensorMap& tensors, const std::map<std::string, std::string>& metadata) {
  const auto file = std::filesystem::temp_directory_path() / ("engram_fuzz_" + std::to_string(getpid()));
  save_safetensors(file, tensors, metadata);
  std::ifstream stream(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  std::filesystem::remove(file);
  return text;
}

// As another program writes it: no digest stands in the way of the parser.
std::string foreign(const std::string& header, std::size_t bytes) {
  const std::uint64_t length = header.size();
  std::string text(sizeof(length), '\0');
  std::memcpy(text.data(), &length, sizeof(length));
  return text + header + std::string(bytes, 'x');
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  const TensorMap weights = {{"actor.hidden1.weight", torch::ones({4, 3})}, {"actor.hidden1.bias", torch::ones({4})}};
  const TensorMap trace = {{"observations", torch::zeros({3, 2}, torch::kUInt8)},
                           {"actions", torch::zeros({3}, torch::kInt32)},
                           {"rewards", torch::zeros({3})},
                           {"episode_starts", torch::zeros({1}, torch::kInt64)}};
  return {saved(weights, {{"format", "1"}, {"config", "[run]\nseed = 1\n"}}),
          saved(trace, {{"policy", "greedy"}}),
          saved({}, {}),
          foreign(R"({"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
                  R"("b":{"dtype":"U8","shape":[],"data_offsets":[8,9]},"c":{"dtype":"I64","shape":[0,7],)"
                  R"("data_offsets":[9,9]},"__metadata__":{"format":"pt"}})",
                  9),
          foreign(R"({"d":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}})", 8),
          foreign(R"({"b":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},)"
                  R"("h":{"dtype":"F16","shape":[1],"data_offsets":[4,6]}})",
                  6),
          foreign(R"({"f":{"dtype":"F4","shape":[2,3],"data_offsets":[0,3]},)"
                  R"("i":{"dtype":"I16","shape":[1],"data_offsets":[3,5]}})",
                  5)};
}

}  // namespace engram

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace engram;
  take_or_refuse([&] {
    std::istringstream stream(text_of(data, size));
    const SafetensorsFile file = read_safetensors(stream, size, "it");
    for (const auto& [name, tensor] : file.tensors) {
      // Reads every byte: all of them must be there.
      if (tensor.numel() > 0) require(tensor.equal(tensor) || tensor.is_floating_point(), "a tensor is not itself");
    }
    require(file.digest_checked == file.metadata.contains("xxh3_128"), "a digest was not checked");

    // What is loaded can be described, and is what is described.
    std::istringstream again(stream.str());
    const SafetensorsSummary summary = summarize_safetensors(again, size, "it");
    require(summary.digest_checked == file.digest_checked && summary.metadata == file.metadata &&
                summary.tensors.size() == file.tensors.size(),
            "a summary of another file");
    std::size_t bytes = 0;
    for (const SafetensorsSummary::Tensor& tensor : summary.tensors) {
      const torch::Tensor& loaded = file.tensors.at(tensor.name);
      const std::size_t widened = tensor.dtype == "BF16" || tensor.dtype == "F16" ? 2 : 1;  // it became float32
      require(loaded.sizes() == tensor.shape && loaded.nbytes() == widened * tensor.bytes,
              "a summary of another tensor");
      bytes += tensor.bytes;
    }
    require(bytes <= size, "more bytes than the file has");
  });
  take_or_refuse([&] {
    std::istringstream stream(text_of(data, size));
    const SafetensorsSummary summary = summarize_safetensors(stream, size, "it");
    std::uint64_t bytes = 0;
    for (const SafetensorsSummary::Tensor& tensor : summary.tensors) bytes += tensor.bytes;
    require(bytes <= size, "a summary of more bytes than the file has");
  });
  return 0;
}
