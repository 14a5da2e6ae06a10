#include "memory/core/registry.h"

#include "base/error.h"
#include "base/suggest.h"
#include "memory/core/all_backbones.h"
#include "memory/core/counted_backbone.h"

namespace engram {
namespace {

std::vector<BackboneEntry>& backbones() {
  static std::vector<BackboneEntry> all = [] {
    std::vector<BackboneEntry> listed;
    AllBackbones::for_each([&]<class Options>() { listed.push_back(backbone_entry<Options>()); });
    return listed;
  }();
  return all;
}

}  // namespace

void add_backbone(BackboneEntry entry) {
  for (const BackboneEntry& backbone : backbones())
    if (backbone.name == entry.name) throw UserError("there is a backbone '" + entry.name + "' already");
  backbones().push_back(std::move(entry));
}

bool is_added_backbone(const std::string& name) {
  bool own = false;
  AllBackbones::for_each([&]<class Options>() { own = own || name == Options::kName; });
  return !own;
}

std::vector<std::string> backbone_names() {
  std::vector<std::string> names;
  for (const BackboneEntry& backbone : backbones()) names.push_back(backbone.name);
  return names;
}

BackboneConfig::BackboneConfig(const std::string& name) : name_(name) {
  for (const BackboneEntry& backbone : backbones())
    if (backbone.name == name) options_ = backbone.defaults();
  if (!options_) throw UserError(unknown_name("backbone", name, backbone_names(), "engram list"));
}

OptionList BackboneConfig::options() {
  OptionList list(kMemorySection);
  options_->list(list);
  return list;
}

std::shared_ptr<SequenceModel> make_backbone(const BackboneConfig& config, std::int64_t max_steps) {
  return config.backbone_options().make_model(max_steps);
}

}  // namespace engram
