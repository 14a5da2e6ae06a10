// Networks that are made to be counted: their parameters, the memory of a row, the work of a step.
#pragma once

#include <optional>
#include <string>

#include "memory/core/registry.h"
#include "nn/device/without_storage.h"

namespace engram {

// Whether a program has added it (add_backbone), to those that are engram's own.
bool is_added_backbone(const std::string& name);

// What `make` makes with this backbone, without storage. One that a program has added may look at its numbers while it
// is made: it is made with them.
template <class Make>
auto made_to_count(const BackboneConfig& backbone, const Make& make) {
  std::optional<WithoutStorage> without;
  if (!is_added_backbone(backbone.name())) without.emplace();
  return make();
}

}  // namespace engram
