// What episodes were measured to be, as JSON: in the output of `engram evaluate` and in evaluations.json.
#pragma once

#include <nlohmann/json.hpp>

#include "agents/study/evaluation_range.h"

namespace engram {

// {"success": 0.9, "success_interval": [low, high], "return": 1.5, "return_interval": [low, high]}; an infinite end is
// null.
nlohmann::ordered_json measured_json(const MeasuredEpisodes& measured);
// {"key": "task.corridor_length", "value": 50, "greedy": {...}, "sampled": {...}}
nlohmann::ordered_json point_json(const RangePoint& point);

}  // namespace engram
