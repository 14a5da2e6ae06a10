// The task "external": environments whose rules are not the project's, such as Gymnasium's through the Python package.
// Its options are the facts of these environments, so that a run's config tells what its agent sees and does. There is
// nothing to play it by: what makes environments of a task refuses this one. Not among task_names().
//
// An observation's text is its type of element and its parts in their order, each with its name:
//   float32: position vector 2 + button tokens 1 of 4
//   uint8: observation image 3x84x84
#pragma once

#include <memory>
#include <string>

#include "base/observation_spec.h"
#include "envs/registry.h"

namespace engram {

inline constexpr const char* kExternalTask = "external";

std::unique_ptr<AnyTaskOptions> external_task_defaults();

// Throws UserError for a text that is not of that form.
ObservationSpec parse_external_observation(const std::string& text);

}  // namespace engram
