#include "nn/device/plain_operations.h"

namespace engram {
namespace {

thread_local bool is_plain = false;

}  // namespace

PlainOperations::PlainOperations(bool plain) : before_(is_plain) { is_plain = is_plain || plain; }
PlainOperations::~PlainOperations() { is_plain = before_; }

bool PlainOperations::on() { return is_plain; }

}  // namespace engram
