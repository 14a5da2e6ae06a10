// The figures of a report as JSON: of its .json and of its page.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "experiments/report/report.h"

namespace engram {

using Json = nlohmann::ordered_json;

Json report_data(const Results& results, const Analysis& analysis, const BootstrapOptions& bootstrap);
Json scores_data(const ScoreTable& table, const AggregateScores& scores);

std::string data_text(const Json& data);  // of a .json file

}  // namespace engram
