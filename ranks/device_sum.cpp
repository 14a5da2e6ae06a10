#include "ranks/device_sum.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <dlfcn.h>
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <future>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "ranks/rank_watch.h"

namespace engram {
namespace {

using namespace std::chrono_literals;

// A call of NCCL that takes longer waits for a rank that may be the lost one. A watch knows after kNews who is lost.
constexpr std::chrono::milliseconds kOneCall = 5s, kNews = 4s, kBetweenLooks = 20ms;

// NCCL as LibTorch's GPU library has loaded it, from wherever the two lie: a program need not find it a second time.
template <class Function>
Function loaded(const char* name) {
  void* const found = ::dlsym(RTLD_DEFAULT, name);
  if (found == nullptr) throw std::runtime_error(std::string("LibTorch's GPU library has loaded no ") + name);
  return reinterpret_cast<Function>(found);
}

struct Nccl {
  decltype(&ncclGetUniqueId) get_unique_id = loaded<decltype(&ncclGetUniqueId)>("ncclGetUniqueId");
  decltype(&ncclCommInitRankConfig) init = loaded<decltype(&ncclCommInitRankConfig)>("ncclCommInitRankConfig");
  decltype(&ncclAllReduce) all_reduce = loaded<decltype(&ncclAllReduce)>("ncclAllReduce");
  decltype(&ncclCommGetAsyncError) async_error = loaded<decltype(&ncclCommGetAsyncError)>("ncclCommGetAsyncError");
  decltype(&ncclCommAbort) abort = loaded<decltype(&ncclCommAbort)>("ncclCommAbort");
  decltype(&ncclCommDestroy) destroy = loaded<decltype(&ncclCommDestroy)>("ncclCommDestroy");
  decltype(&ncclGetErrorString) error_text = loaded<decltype(&ncclGetErrorString)>("ncclGetErrorString");
  decltype(&ncclGetLastError) last_error = loaded<decltype(&ncclGetLastError)>("ncclGetLastError");

  // "NCCL cannot add up: remote process exited: ..."
  std::string failure(const char* what, ncclResult_t result) const {
    const std::string detail = last_error(nullptr);
    return std::string("NCCL cannot ") + what + ": " + error_text(result) +
           (detail.empty() ? "" : ": " + detail.substr(0, detail.find('\n')));
  }
};

const Nccl& nccl() {
  static const Nccl functions = [] {
    // Before NCCL reads it: the multicast of a machine's switches can take GPUs down with a program that ends badly.
    ::setenv("NCCL_NVLS_ENABLE", "0", /*overwrite=*/0);
    return Nccl{};
  }();
  return functions;
}

void check_nccl(ncclResult_t result, const char* what) {
  if (result != ncclSuccess) throw std::runtime_error(nccl().failure(what, result));
}

ncclDataType_t type_of(const torch::Tensor& values) {
  TORCH_CHECK(values.scalar_type() == torch::kFloat32 || values.scalar_type() == torch::kFloat64,
              "sums of ranks are of float32 or float64, not ", values.scalar_type());
  return values.scalar_type() == torch::kFloat32 ? ncclFloat32 : ncclFloat64;
}

}  // namespace

// Called by the program's thread, but for sound() and give_up(), which its watch calls.
class DeviceSum::Communicator {
 public:
  explicit Communicator(torch::Device device) : device_(device) {}

  // Begins the watch of `own`, which holds it until leave(). An exchange.
  static void watch(const std::shared_ptr<Communicator>& own, Ranks& ranks) {
    own->watch_ = std::make_unique<RankWatch>(
        ranks, [own] { return own->sound(); }, [own] { own->give_up(); });
  }

  // Connects `own` with those of the other ranks. NCCL waits for them in a thread of its own, which is left alone with
  // what it holds where one of them is lost.
  static void connect(const std::shared_ptr<Communicator>& own, Ranks& ranks) {
    ncclUniqueId id{};
    if (ranks.first()) check_nccl(nccl().get_unique_id(&id), "name a group of GPUs");
    const std::string bytes = ranks.broadcast(std::string_view(id.internal, sizeof id.internal));
    std::memcpy(id.internal, bytes.data(), sizeof id.internal);
    std::packaged_task<ncclResult_t()> init([own, id, rank = ranks.rank(), size = ranks.size()] {
      const c10::cuda::CUDAGuard guard(own->device_);
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 1;
      return nccl().init(&own->communicator_, size, id, rank, &config);
    });
    std::future<ncclResult_t> result = init.get_future();
    std::thread(std::move(init)).detach();
    while (result.wait_for(kBetweenLooks) != std::future_status::ready)
      if (own->given_up_) throw std::runtime_error("a rank is lost");
    check_nccl(result.get(), "connect the ranks' GPUs");
    own->connected_ = true;
  }

  // Ends the watch and frees what NCCL has.
  void leave() {
    const bool together = watch_ && watch_->leave();
    watch_.reset();
    if (given_up_.exchange(true) || !connected_) return;  // the watch has freed it, or there is nothing
    together ? nccl().destroy(communicator_) : nccl().abort(communicator_);
  }

  void add_up(const torch::Tensor& values) {
    TORCH_CHECK(values.device() == device_ && values.is_contiguous(), "a sum of ranks on ", device_, " of values on ",
                values.device(), values.is_contiguous() ? "" : " that are not contiguous");
    const ncclDataType_t type = type_of(values);
    const c10::cuda::CUDAGuard guard(device_);
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(device_.index()).stream();
    const std::scoped_lock lock(calling_);
    if (given_up_) return;
    check_nccl(nccl().all_reduce(values.data_ptr(), values.data_ptr(), static_cast<std::size_t>(values.numel()), type,
                                 ncclSum, communicator_, stream),
               "add up");
  }

  bool given_up() const { return given_up_; }
  // Why, where no rank is lost; after given_up().
  const std::string& reason() const { return reason_; }

 private:
  bool sound() {
    if (!connected_) return true;
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = nccl().async_error(communicator_, &state);
    if (asked != ncclSuccess) state = asked;
    if (state == ncclSuccess || state == ncclInProgress) return true;
    reason_ = nccl().failure("add up", state);
    return false;
  }

  // Returns when no graph holds a sum any more.
  void give_up() {
    {
      // A call under way ends by itself, or waits for the lost rank and is ended by what follows; none begins later.
      const std::unique_lock lock(calling_, kOneCall);
      given_up_ = true;
    }
    if (connected_) nccl().abort(communicator_);
  }

  const torch::Device device_;
  ncclComm_t communicator_ = nullptr;
  std::timed_mutex calling_;
  std::atomic<bool> connected_ = false, given_up_ = false;
  std::string reason_ = "another rank has ended its sums";
  std::unique_ptr<RankWatch> watch_;
};

DeviceSum::DeviceSum(std::shared_ptr<Ranks> ranks, std::shared_ptr<Communicator> communicator)
    : ranks_(std::move(ranks)), communicator_(std::move(communicator)) {}

// What is thrown here finds an object that is whole, which ~DeviceSum() takes apart.
DeviceSum::DeviceSum(std::shared_ptr<Ranks> ranks, torch::Device device)
    : DeviceSum(std::move(ranks), std::make_shared<Communicator>(device)) {
  Communicator::watch(communicator_, *ranks_);
  explaining([&] { Communicator::connect(communicator_, *ranks_); });
}

DeviceSum::~DeviceSum() { communicator_->leave(); }

void DeviceSum::explaining(const std::function<void()>& work) {
  try {
    work();
  } catch (const RankLost&) {
    throw;
  } catch (const std::exception&) {
    check_after_failure();
    throw;
  }
}

void DeviceSum::add_up(torch::Tensor& values) {
  explaining([&] { communicator_->add_up(values); });
  check();
}

void DeviceSum::check() {
  if (!communicator_->given_up()) return;
  ranks_->any(false);  // throws what is known of the lost rank
  throw std::runtime_error("the ranks' GPUs add up no more: " + communicator_->reason());
}

void DeviceSum::check_after_failure() {
  const auto until = std::chrono::steady_clock::now() + kNews;
  while (!communicator_->given_up() && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(kBetweenLooks);
  check();
}

}  // namespace engram
