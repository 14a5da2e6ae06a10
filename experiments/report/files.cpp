#include "experiments/report/files.h"

#include <ostream>
#include <system_error>

#include "base/error.h"
#include "storage/files.h"

namespace engram {

namespace fs = std::filesystem;

void write_text_file(const fs::path& file, const std::string& text) {
  replace_file(file, [&](std::ostream& stream) { stream << text; });
}

void create_folders(const ReportFiles& files, bool pictures) {
  std::error_code error;
  for (const fs::path& folder : {files.html.parent_path(), pictures ? files.folder : fs::path()}) {
    if (!folder.empty()) fs::create_directories(folder, error);
    if (error) throw_error("folder '" + folder.string() + "' cannot be created", error.value());
  }
}

ReportFiles ReportFiles::beside(const fs::path& html) {
  if (html.extension() != ".html")
    throw UserError("a report is an .html file, with others beside it, not '" + html.string() + "'");
  const auto with = [&](const std::string& ending) {
    fs::path file = html;
    return file.replace_filename(html.stem().string() + ending);
  };
  return {html, with(".md"), with(".csv"), with(".json"), with(".tex"), with("_figures")};
}

}  // namespace engram
