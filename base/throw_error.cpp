#include "base/throw_error.h"

#include <cerrno>
#include <system_error>

#include "base/error.h"

namespace engram {

void throw_error(const std::string& what, int error) {
  const std::string message = what + ": " + std::generic_category().message(error);
  for (const int of_machine : {ENOSPC, EDQUOT, EFBIG, EIO, EMFILE, ENFILE, ENOMEM})
    if (error == of_machine) throw FileError(message);
  throw UserError(message);
}

}  // namespace engram
