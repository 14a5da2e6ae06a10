// What stands for sums on GPUs in a build without GPU support, or without NCCL.
#include <functional>
#include <memory>

#include "base/error.h"
#include "ranks/device_sum.h"

namespace engram {

class DeviceSum::Communicator {};
DeviceSum::DeviceSum(std::shared_ptr<Ranks>, torch::Device device) {
  throw UserError("this build adds up no gradients of several ranks on " + device.str() +
                  ": it needs GPU support and NCCL; --run.device cpu");
}
DeviceSum::~DeviceSum() = default;
void DeviceSum::add_up(torch::Tensor&) {}
void DeviceSum::check() {}
void DeviceSum::explaining(const std::function<void()>&) {}

}  // namespace engram
