// The page of a report: one HTML file that opens without a network. The document is its text, and what page/ has of
// JavaScript draws charts and tables from the figures, which travel in it as JSON.
#pragma once

#include <string>

#include "experiments/report/data.h"
#include "experiments/report/document.h"

namespace engram {

// `data`: as report_data() makes it; beside that the page reads, where it is there, "live" (live_page.h) and of each
// run "links". Neither the document's nor the data's texts become anything but text.
std::string report_page(const Document& document, const Json& data);

}  // namespace engram
