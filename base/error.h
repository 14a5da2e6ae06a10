// UserError: bad input of any kind. Its message is one line that names the offending value and what
// would be right; the program prints it and leaves with exit status 2.
#pragma once

#include <stdexcept>
#include <string>

namespace engram {

class UserError : public std::runtime_error {
 public:
  explicit UserError(const std::string& message) : std::runtime_error(message) {}
};

}  // namespace engram
