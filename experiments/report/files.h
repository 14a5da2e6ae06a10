// Writing the files of a report.
#pragma once

#include <filesystem>
#include <string>

#include "experiments/report/report.h"

namespace engram {

// Throws UserError if one cannot be created. `pictures`: with the folder of pictures.
void create_folders(const ReportFiles& files, bool pictures);
void write_text_file(const std::filesystem::path& file, const std::string& text);

}  // namespace engram
