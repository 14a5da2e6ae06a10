// Modules without numbers: to count what a network takes before a byte of it is allocated.
#pragma once

#include <c10/util/Exception.h>

#include <memory>

namespace engram {

// While it lives, tensors that this thread makes, and does not put on a device by name, are on LibTorch's meta device:
// they have a shape and a type, no memory and no numbers. What looks at numbers throws c10::Error.
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

// What `make` makes, without storage; with it where its constructors look at numbers, as one of another program's own
// backbones may.
template <class Make>
auto shapes_of(const Make& make) {
  try {
    const WithoutStorage mode;
    return make();
  } catch (const c10::Error&) {
    return make();
  }
}

}  // namespace engram
