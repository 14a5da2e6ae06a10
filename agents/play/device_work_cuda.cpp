#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "agents/play/device_graph.h"
#include "agents/play/device_work.h"

namespace engram {

struct DeviceWork::State {
  SideStream stream{kActingPriority};
  std::set<int> warm;  // kinds
  std::map<std::pair<int, int>, DeviceGraph> graphs;
};

DeviceWork::DeviceWork(torch::Device device) : state_(device.is_cuda() ? std::make_unique<State>() : nullptr) {}
DeviceWork::~DeviceWork() = default;
DeviceWork::DeviceWork(DeviceWork&&) noexcept = default;
DeviceWork& DeviceWork::operator=(DeviceWork&&) noexcept = default;

void DeviceWork::run(const std::function<void()>& work) {
  if (state_)
    state_->stream.run(work);
  else
    work();
}

void DeviceWork::repeat(int kind, int count, const std::function<void(int)>& work) {
  if (!state_ || state_->warm.insert(kind).second) return work(count);
  DeviceGraph& graph = state_->graphs[{kind, count}];
  if (!graph.captured()) graph.capture([&] { work(count); });
  graph.replay();
}

}  // namespace engram
