#include "envs/external_task.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ranges>
#include <span>
#include <sstream>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text/text.h"
#include "envs/shown_observation.h"

namespace engram {
namespace {

constexpr std::int64_t kMostElements = 1 << 24;  // of an observation

class ObservationText {
 public:
  explicit ObservationText(const std::string& text) : text_(text) {}

  ObservationSpec parse() const {
    const std::size_t colon = text_.find(':');
    const std::string type = text_.substr(0, colon);
    if (colon == std::string::npos || (type != "uint8" && type != "float32"))
      refuse("it begins with \"uint8:\" or \"float32:\"");
    ObservationSpec spec{type == "uint8" ? ElementType::kUint8 : ElementType::kFloat32, {}};
    for (const std::string& part : split_text(text_.substr(colon + 1), '+')) spec.parts.push_back(parse_part(part));
    std::int64_t elements = 0;
    for (const ObservationPart& part : spec.parts) elements += part.elements();
    if (elements > kMostElements) refuse("an observation has at most " + std::to_string(kMostElements) + " elements");
    for (auto part = spec.parts.begin(); part != spec.parts.end(); ++part) {
      if (std::ranges::find(spec.parts.begin(), part, part->name, &ObservationPart::name) != part)
        refuse("two parts are called '" + part->name + "'");
      if (spec.type == ElementType::kUint8 && part->values > 256) refuse("a token of uint8 has at most 256 values");
    }
    return spec;
  }

 private:
  [[noreturn]] void refuse(const std::string& reason) const {
    throw UserError("task.observation '" + text_ + "' is not an observation: " + reason);
  }

  ObservationPart parse_part(const std::string& text) const {
    std::istringstream stream(text);
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    const bool tokens = words.size() == 5 && words[1] == "tokens" && words[3] == "of";
    if (!tokens && !(words.size() == 3 && (words[1] == "image" || words[1] == "vector")))
      refuse("a part reads as in \"NAME image 3x84x84\", \"NAME vector 4\" or \"NAME tokens 2 of 5\"");
    ObservationPart part{words[0],
                         tokens                ? PartKind::kTokens
                         : words[1] == "image" ? PartKind::kImage
                                               : PartKind::kVector,
                         {}};
    if (!std::ranges::all_of(part.name, [](unsigned char c) { return c < 128 && (std::isalnum(c) || c == '_'); }))
      refuse("the name of a part has letters, digits and \"_\"");
    for (const std::string& size : split_text(words[2], 'x')) part.shape.push_back(number(size));
    if (part.shape.size() > 4) refuse("a part has at most 4 dimensions");
    if (part.kind == PartKind::kImage && (part.shape.size() != 3 || part.shape[1] < 3 || part.shape[2] < 3))
      refuse("an image is channels x height x width, the latter 3 or more");
    if (part.kind == PartKind::kVector && part.shape.size() != 1) refuse("a vector has one dimension");
    if (tokens) part.values = number(words[4]);
    return part;
  }

  std::int64_t number(const std::string& text) const {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > kMostElements)
      refuse("'" + text + "' is not a number from 1 to " + std::to_string(kMostElements));
    return value;
  }

  const std::string& text_;
};

class ExternalTask final : public AnyTaskOptions {
 public:
  std::unique_ptr<AnyTaskOptions> copy() const override { return std::make_unique<ExternalTask>(*this); }

  void list(OptionList& list) override {
    list.add("id", id_, "what the environments call themselves");
    list.add("observation", observation_, "type of element and parts of an observation");
    list.add("actions", actions_, {2, 1'000'000}, "actions, numbered from 0");
    list.add("max_episode_steps", max_episode_steps_, {1, 1'000'000}, "steps of the longest episode");
  }

  void check_all() const override {
    check_own_bounds();
    parse_external_observation(observation_);
  }

  TaskInfo info() const override {
    TaskInfo info;
    info.name = kExternalTask;
    info.description = "environments of others: " + id_;
    info.memory_demand = "not known";
    info.source = id_;
    for (int action = 0; action < actions_; ++action) info.action.names.push_back(std::to_string(action));
    info.observation = parse_external_observation(observation_);
    info.max_episode_steps = max_episode_steps_;
    info.chance_source = "nobody has measured it";
    return info;
  }

  std::vector<RunFact> run_facts(std::uint64_t /*seed*/) const override { return {}; }
  std::vector<VectorPart> vector_parts() const override { return {}; }
  std::vector<ColourMeaning> colours() const override { return {}; }
  ShownObservation show(std::span<const std::byte> observation) const override {
    return show_plainly(info().observation, {}, observation);
  }

  std::unique_ptr<VecEnv> make_cpu_vec_env(std::uint64_t /*seed*/, Purpose /*purpose*/, int /*num_envs*/,
                                           int /*num_threads*/, std::uint32_t /*first_environment*/) const override {
    throw UserError("task 'external' is '" + id_ +
                    "', environments that are played from Python alone: engram.train(config, env=...)");
  }

 private:
  void check_own_bounds() const {
    ExternalTask copy = *this;
    OptionList list(kSection);
    copy.list(list);
    for (const Option& option : list.options()) option.set(option.get());
  }

  std::string id_ = "unknown";
  std::string observation_ = "float32: observation vector 1";
  int actions_ = 2;
  int max_episode_steps_ = 1;
};

}  // namespace

std::unique_ptr<AnyTaskOptions> external_task_defaults() { return std::make_unique<ExternalTask>(); }

ObservationSpec parse_external_observation(const std::string& text) { return ObservationText(text).parse(); }

}  // namespace engram
