// The page of engram list roads, docs/use/what_runs_fast.md.
#pragma once

#include <string>

namespace engram {

// In Markdown, from the functions by which the program itself chooses. Needs no GPU.
std::string roads_page();

}  // namespace engram
