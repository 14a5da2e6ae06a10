#include "memory/core/registry.h"

#include <string>
#include <utility>

#include "base/error.h"
#include "memory/core/all_backbones.h"
#include "memory/core/counted_backbone.h"

namespace engram {
namespace {

NamedRegistry<BackboneEntry>& backbones() {
  static NamedRegistry<BackboneEntry> all = [] {
    NamedRegistry<BackboneEntry> listed("backbone");
    AllBackbones::for_each([&]<class Options>() { listed.add(backbone_entry<Options>()); });
    return listed;
  }();
  return all;
}

}  // namespace

void add_backbone(BackboneEntry entry) { backbones().add(std::move(entry)); }

bool is_added_backbone(const std::string& name) {
  bool own = false;
  AllBackbones::for_each([&]<class Options>() { own = own || name == Options::kName; });
  return !own;
}

std::vector<std::string> backbone_names() { return backbones().names(); }

BackboneConfig::BackboneConfig(const std::string& name) : NamedConfig(name, backbones().defaults(name)) {}

std::shared_ptr<SequenceModel> make_backbone(const BackboneConfig& config, std::int64_t max_steps) {
  if (max_steps < 1)
    throw UserError("max_steps = " + std::to_string(max_steps) + " is not allowed; it takes 1 or more");
  return config.any().make_model(max_steps);
}

}  // namespace engram
