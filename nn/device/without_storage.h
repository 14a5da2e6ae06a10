// Modules without numbers: to count what a network takes before a byte of it is allocated.
#pragma once

#include <memory>

namespace engram {

// While it lives, tensors that this thread makes, and does not put on a device by name, are on LibTorch's meta device:
// they have a shape and a type, no memory and no numbers. Who looks at numbers gets c10::Error, and by a pointer to
// them null.
class WithoutStorage {
 public:
  WithoutStorage();
  ~WithoutStorage();
  WithoutStorage(const WithoutStorage&) = delete;
  WithoutStorage& operator=(const WithoutStorage&) = delete;

 private:
  struct Mode;
  std::unique_ptr<Mode> mode_;
};

}  // namespace engram
