// What a run goes on from, after the digest: a checkpoint may be forged, so that its digest is right and its state is
// not.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "agents/run/training/trainer.h"
#include "storage/tensors/safetensors.h"
#include "storage/tensors/state_archive.h"
#include "tests/fuzz/target.h"

namespace engram {
namespace {

// So small that a checkpoint is a few thousand bytes, most of them not weights.
Trainer tiny_trainer() {
  const Config config = Config::from_settings({{"task.name", "tmaze"},
                                               {"task.corridor_length", "3"},
                                               {"memory.name", "lstm"},
                                               {"memory.width", "2"},
                                               {"memory.layers", "1"},
                                               {"network.hidden_width", "2"},
                                               {"replay.batch_episodes", "2"},
                                               {"evaluation.every_steps", "20"},
                                               {"evaluation.episodes", "1"},
                                               {"evaluation.final_episodes", "0"},
                                               {"run.random_episodes", "2"},
                                               {"run.num_envs", "2"},
                                               {"run.steps", "30"}});
  return {config, torch::kCPU, 1};
}

struct LastSave : TrainObserver {
  TensorMap tensors;
  std::map<std::string, std::string> metadata;

  void save(const TrainStatus&, StateArchive& archive) override {
    tensors.clear();
    for (const auto& [name, tensor] : archive.saved_tensors()) tensors[name] = tensor.clone();
    metadata = archive.saved_metadata();
  }
};

const char* dtype_name(const torch::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case torch::kFloat32:
      return "F32";
    case torch::kFloat64:
      return "F64";
    case torch::kInt32:
      return "I32";
    case torch::kInt64:
      return "I64";
    default:
      require(tensor.scalar_type() == torch::kUInt8, "a dtype that no checkpoint has");
      return "U8";
  }
}

// As a file of another program, which carries no digest: mutations reach what lies behind it.
std::string without_digest(const LastSave& state) {
  nlohmann::json header;
  std::string payload;
  for (const auto& [name, tensor] : state.tensors) {
    const torch::Tensor dense = tensor.contiguous();
    header[name] = {{"dtype", dtype_name(dense)},
                    {"shape", dense.sizes().vec()},
                    {"data_offsets", {payload.size(), payload.size() + dense.nbytes()}}};
    payload.append(static_cast<const char*>(dense.const_data_ptr()), dense.nbytes());
  }
  header["__metadata__"] = state.metadata;
  const std::string text = header.dump();
  const std::uint64_t length = text.size();
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  return file + text + payload;
}

void restore(const std::string& file) {
  std::istringstream stream(file);
  StateArchive archive(read_safetensors(stream, file.size(), "it"), "it");
  Trainer trainer = tiny_trainer();
  trainer.restore(archive);
  archive.check_all_restored();
  const TrainStatus& status = trainer.status();
  require(std::min({status.steps, status.updates, status.episodes}) >= 0, "a negative count");
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  LastSave last;
  tiny_trainer().run({&last});
  const std::string file = without_digest(last);
  restore(file);
  return {file};
}

}  // namespace engram

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  engram::take_or_refuse([&] { engram::restore(engram::text_of(data, size)); });
  return 0;
}
