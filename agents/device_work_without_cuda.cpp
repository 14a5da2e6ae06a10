// In a build without GPU support.
#include "agents/device_work.h"

namespace engram {

struct DeviceWork::State {};

DeviceWork::DeviceWork(torch::Device) {}
DeviceWork::~DeviceWork() = default;
DeviceWork::DeviceWork(DeviceWork&&) noexcept = default;
DeviceWork& DeviceWork::operator=(DeviceWork&&) noexcept = default;

void DeviceWork::run(const std::function<void()>& work) { work(); }
void DeviceWork::repeat(int, int count, const std::function<void(int)>& work) { work(count); }

}  // namespace engram
