// An agent in another task than the one that it was trained in: the same rules with other options.
#pragma once

#include "agents/run/config/config.h"

namespace engram {

// The config of a trained agent with other values of its task's options, task.key or task.preset, in layers above the
// agent's own. Throws UserError, in a line that names the value, for a key or value that the task does not take, for
// another task, and where the agent's observations or actions would have another shape. A longer episode is none of
// these: make_network() builds the backbone for it.
Config with_task_layers(Config trained, const SettingsLayers& layers);
// Of one layer.
Config with_task_settings(Config trained, const Settings& settings);

}  // namespace engram
