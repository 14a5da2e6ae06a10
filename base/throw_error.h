// An error number of the operating system as one of the two errors that a user meets (base/error.h).
#pragma once

#include <string>

namespace engram {

// Throws "`what`: reason": FileError if it is the machine's (disk full, quota, file-size limit, input/output, out of
// descriptors or memory), UserError if it is the path's.
[[noreturn]] void throw_error(const std::string& what, int error);

}  // namespace engram
