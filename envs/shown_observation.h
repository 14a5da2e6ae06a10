// What an agent sees, for people to read.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "envs/registry.h"
#include "envs/task.h"

namespace engram {

// An observation of the task with these options: as the task shows it, or plainly. Throws std::invalid_argument for
// bytes of another number.
ShownObservation show_observation(const TaskConfig& task, std::span<const std::byte> observation);

// An image by its colours, also where it has parts beside it. Others by the parts of the vector; without any, by
// numbers, and of a long one by those that are not 0.
// Throws std::logic_error if the parts are not all of it.
ShownObservation show_plainly(const ObservationSpec& spec, const std::vector<VectorPart>& parts,
                              std::span<const std::byte> observation);

// The first image of 1 or 3 channels in an observation, a cell a pixel; none where there is none.
std::optional<Canvas> first_image(const ObservationSpec& spec, std::span<const std::byte> observation);

// How bright a colour looks, from 0 to 255; and whether white stands out on it better than black does.
inline int brightness(Rgb colour) { return (2 * colour.red + 5 * colour.green + colour.blue) / 8; }
inline bool is_dark(Rgb colour) { return brightness(colour) < 110; }

}  // namespace engram
