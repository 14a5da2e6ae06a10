// LearnerPreset: settings of a learner that were published, by name. Without LibTorch. A learner brings its own
// (presets() of its options, registry.h); what a preset is to a config is said in agents/run/config/config.h.
#pragma once

#include <string>
#include <vector>

#include "storage/settings.h"

namespace engram {

struct LearnerPreset {
  std::string name;
  std::string learner;
  std::string summary;  // in a few words
  std::string source;   // where it was published
  Settings values;      // section.key -> value, of any section, but none that chooses, such as memory.name
};

// Of all learners that this program knows. Their names are unique.
const std::vector<LearnerPreset>& learner_presets();
// Throws UserError for an unknown name (naming the nearest).
const LearnerPreset& learner_preset(const std::string& name);

}  // namespace engram
