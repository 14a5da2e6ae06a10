// Files that are either whole or not there: written beside the target and renamed over it.
#pragma once

#include <filesystem>
#include <functional>
#include <ostream>
#include <string>

namespace engram {

// Replaces `file` by what `write` puts into the stream. An interrupted or failed write leaves the old file. Throws
// UserError if the path cannot be written.
void replace_file(const std::filesystem::path& file, const std::function<void(std::ostream&)>& write);

// Throws UserError, naming the path, unless replace_file() could write there. Leaves no trace.
void check_writable(const std::filesystem::path& file);

}  // namespace engram
