#include "memory/registry.h"

#include "base/error.h"
#include "base/suggest.h"

namespace engram {
namespace {

// Calls visit(options) with the defaults of every backbone.
template <class Visitor, std::size_t... index>
void for_each_backbone(Visitor visit, std::index_sequence<index...>) {
  (visit(std::variant_alternative_t<index, BackboneOptions>{}), ...);
}

template <class Visitor>
void for_each_backbone(Visitor visit) {
  for_each_backbone(visit, std::make_index_sequence<std::variant_size_v<BackboneOptions>>{});
}

}  // namespace

std::vector<std::string> backbone_names() {
  std::vector<std::string> names;
  for_each_backbone([&names](const auto& options) { names.emplace_back(options.kName); });
  return names;
}

BackboneConfig::BackboneConfig(const std::string& name) : name_(name) {
  bool found = false;
  for_each_backbone([&](const auto& options) {
    if (options.kName != name) return;
    options_ = options;
    found = true;
  });
  if (found) return;
  throw UserError(unknown_name("backbone", name, backbone_names()));
}

std::string BackboneConfig::summary() const {
  return std::visit([](const auto& options) { return std::string(options.kSummary); }, options_);
}

std::string BackboneConfig::source() const {
  return std::visit([](const auto& options) { return std::string(options.kSource); }, options_);
}

OptionList BackboneConfig::options() {
  OptionList list(kMemorySection);
  std::visit([&list](auto& options) { options.list_options(list); }, options_);
  return list;
}

void BackboneConfig::check() const {
  std::visit([](const auto& options) { options.check(); }, options_);
}

std::int64_t BackboneConfig::width() const {
  return std::visit([](const auto& options) { return std::int64_t{options.width}; }, options_);
}

std::int64_t BackboneConfig::inner_width() const {
  return std::visit(
      [](const auto& options) -> std::int64_t {
        if constexpr (requires { options.inner_width(); }) return options.inner_width();
        return 0;
      },
      options_);
}

std::shared_ptr<SequenceModel> make_backbone(const BackboneConfig& config, std::int64_t max_steps) {
  return std::visit([max_steps](const auto& options) { return options.make(max_steps); }, config.variant());
}

}  // namespace engram
