#include "ranks/ranks.h"

#include <c10/util/Logging.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "base/error.h"
#include "ranks/rank_watch.h"

#define USE_C10D_GLOO
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace engram {
namespace {

using namespace std::chrono_literals;

// Ranks come to the meeting within this time of each other, and have connected soon after the last one came. Later one
// that is lost is known at once, one that stands still after this.
constexpr std::chrono::milliseconds kMeeting = 5min, kConnecting = 20s, kStandingStill = 20min;
// After a rank was lost the others tell each other. One of which nothing is heard for kNoticing is the lost one; where
// there are several, all but one may be in the middle of their work, and are given longer.
constexpr std::chrono::milliseconds kNoticing = 2s, kNoticingAtWork = 20s, kBetweenLooks = 20ms;
// Of a watch. Who leaves it waits for the others for kLeaving, and for its thread for kEnding more.
constexpr std::chrono::milliseconds kBetweenWords = 1s, kLeaving = 2s, kEnding = 10s;

// What most exchanges are: bytes that fit need no second one for those that do not.
constexpr std::int64_t kShort = 248;
struct Envelope {
  std::int64_t bytes = 0;
  std::array<char, kShort> text{};
};
static_assert(sizeof(Envelope) == 256);

torch::Tensor bytes_over(const void* data, std::size_t bytes) {
  return torch::from_blob(const_cast<void*>(data), {static_cast<std::int64_t>(bytes)}, torch::kUInt8);
}

// c10d logs failures with their traces. What they mean is said here, in one line; who asks for its log gets it.
void keep_c10d_quiet() {
  constexpr int kFatal = 3;
  if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) FLAGS_caffe2_log_level = kFatal;
}

// c10d's record of each exchange (for who looks into a program that hangs) adds a group to a list that all groups of the
// program share before it takes the list's lock (FlightRecorder, recordWithResetEnabled): the first exchanges of two
// groups in two threads, a watch's and the learner's, could tear it. Of no record, nothing is added.
void keep_no_record_of_exchanges() {
  static const int set = ::setenv("TORCH_FR_BUFFER_SIZE", "0", /*overwrite=*/1);
  static_cast<void>(set);
}

// Gloo writes to its connections with writev, which has no flag against the signal of one that is closed, and leaves it
// to the program to ask for an error instead.
void take_closed_connections_as_errors() { std::signal(SIGPIPE, SIG_IGN); }

// Connects each rank with each.
c10::intrusive_ptr<c10d::ProcessGroupGloo> connect(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size) {
  auto options = c10d::ProcessGroupGloo::Options::create(kConnecting);
  const char* const interface = std::getenv("GLOO_SOCKET_IFNAME");
  options->devices.push_back(interface == nullptr ? c10d::ProcessGroupGloo::createDefaultDevice()
                                                  : c10d::ProcessGroupGloo::createDeviceForInterface(interface));
  auto group = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
  static_cast<c10d::Backend&>(*group).setTimeout(kStandingStill);
  return group;
}

std::string name_of(int rank, int size) { return "rank " + std::to_string(rank) + " of " + std::to_string(size); }

}  // namespace

class Ranks::Connection {
 public:
  explicit Connection(const Launch& launch) : rank_(launch.rank), size_(launch.size) {
    c10d::TCPStoreOptions options;
    options.port = launch.port;
    options.isServer = !launch.store_is_launchers && rank_ == 0;
    options.numWorkers = static_cast<std::size_t>(size_);
    options.waitWorkers = false;  // wait_for_all() says who does not come
    options.multiTenant = true;
    options.timeout = kMeeting;
    try {
      store_ = c10::make_intrusive<c10d::PrefixStore>("engram/" + launch.attempt,
                                                      c10::make_intrusive<c10d::TCPStore>(launch.address, options));
    } catch (const std::exception& error) {
      throw UserError(name_of(rank_, size_) + " cannot meet the others at " + launch.address + ":" +
                      std::to_string(launch.port) + ": " + first_line(error.what()));
    }
    first_has_store_ = !launch.store_is_launchers;
    wait_for_all();
    run([&] { group_ = connect(store_, rank_, size_); });
  }

  // Runs an exchange; where it fails, finds out which rank is gone.
  void run(const std::function<void()>& exchange) {
    try {
      exchange();
    } catch (const std::exception& error) {
      explain(first_line(error.what()));
    }
  }

  c10d::ProcessGroupGloo& group() { return *group_; }

  // Connections beside those of group(), for another thread.
  c10::intrusive_ptr<c10d::ProcessGroupGloo> connect_again() {
    c10::intrusive_ptr<c10d::ProcessGroupGloo> group;
    const std::string name = "again/" + std::to_string(++groups_);
    run([&] { group = connect(c10::make_intrusive<c10d::PrefixStore>(name, store_), rank_, size_); });
    return group;
  }

  void say_failure(const std::string& reason) noexcept {
    try {
      store_->setTimeout(kNoticing);
      put("failed", reason);
      put("told", "");  // it asks for nothing itself
      group_.reset();   // the others' exchange fails now, so that they look
      keep_store_until_told(rank_);
    } catch (const std::exception&) {  // nobody is left to be told
    }
  }

 private:
  static std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }
  static std::string key(const char* what, int rank) { return std::string(what) + "/" + std::to_string(rank); }

  void wait_for_all() {
    std::vector<std::string> keys;
    for (int rank = 0; rank < size_; ++rank) keys.push_back(key("here", rank));
    try {
      put("here", "");
      store_->wait(keys, kMeeting);
    } catch (const std::exception& error) {
      for (int rank = 0; rank < size_; ++rank)
        if (!is_there(keys[static_cast<std::size_t>(rank)]))
          throw RankLost(rank, false, name_of(rank, size_) + " has not come: " + first_line(error.what()));
      throw RankLost(0, false, "the ranks cannot meet: " + first_line(error.what()));
    }
  }

  bool is_there(const std::string& key) {
    try {
      return store_->check({key});
    } catch (const std::exception&) {  // the store is gone
      return false;
    }
  }

  void put(const char* what, const std::string& text) {
    static_cast<c10d::Store&>(*store_).set(key(what, rank_), text);
  }

  // Where this rank has the store: until all but `lost` say that they need it no more.
  void keep_store_until_told(int lost) {
    if (rank_ != 0 || !first_has_store_) return;
    const auto until = std::chrono::steady_clock::now() + (size_ == 2 ? kNoticing : kNoticingAtWork);
    for (int other = 1; other < size_; ++other)
      while (other != lost && !store_->check({key("told", other)}) && std::chrono::steady_clock::now() < until)
        std::this_thread::sleep_for(kBetweenLooks);
  }

  // Throws what is known of the failure of an exchange.
  [[noreturn]] void explain(const std::string& error) {
    try {
      look_who_is_lost(error);
    } catch (const RankLost& lost) {
      try {
        put("told", "");
        keep_store_until_told(lost.rank());
      } catch (const std::exception&) {  // there is no store any more
      }
      throw;
    }
  }

  // A rank that fails has said why; of the others those that live say that they have noticed.
  [[noreturn]] void look_who_is_lost(const std::string& error) {
    std::vector<int> silent;
    try {
      store_->setTimeout(kNoticing);
      put("noticed", "");
      const auto begin = std::chrono::steady_clock::now();
      const auto waited = [&] { return std::chrono::steady_clock::now() - begin; };
      do {
        silent.clear();
        for (int other = 0; other < size_; ++other) {
          if (other == rank_) continue;
          if (store_->check({key("failed", other)}))
            throw RankLost(other, true, name_of(other, size_) + " failed: " + store_->get_to_str(key("failed", other)));
          if (!store_->check({key("noticed", other)})) silent.push_back(other);
        }
        std::this_thread::sleep_for(kBetweenLooks);
      } while (!silent.empty() && waited() < (silent.size() == 1 ? kNoticing : kNoticingAtWork));
    } catch (const RankLost&) {
      throw;
    } catch (const std::exception&) {
      if (first_has_store_)
        throw RankLost(0, false, name_of(0, size_) + " is lost, and with it where the ranks meet: " + error);
      throw RankLost(0, false, "the program that started the ranks is lost: " + error);
    }
    if (silent.empty()) throw RankLost(rank_, false, "the ranks lost each other: " + error);
    std::string names = name_of(silent.front(), size_);
    for (std::size_t i = 1; i < silent.size(); ++i) names += " and " + name_of(silent[i], size_);
    throw RankLost(silent.front(), false, names + (silent.size() == 1 ? " is lost: " : " are lost: ") + error);
  }

  const int rank_, size_;
  int groups_ = 0;  // beside group_, so far
  bool first_has_store_ = false;
  c10::intrusive_ptr<c10d::PrefixStore> store_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
};

Ranks::Ranks() = default;

Ranks::Ranks(const Launch& launch) : rank_(launch.rank), size_(launch.size) {
  if (launch.alone()) return;
  keep_c10d_quiet();
  keep_no_record_of_exchanges();
  take_closed_connections_as_errors();
  connection_ = std::make_unique<Connection>(launch);
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  const std::vector<std::string> hosts = all_gather(host);
  on_this_machine_ = static_cast<int>(std::ranges::count(hosts, std::string(host)));
  place_on_machine_ = static_cast<int>(std::count(hosts.begin(), hosts.begin() + rank_, std::string(host)));
}

Ranks::~Ranks() = default;

std::string Ranks::name() const { return name_of(rank_, size_); }

std::vector<std::string> Ranks::exchange(std::string_view mine, bool for_first_alone) {
  if (alone()) return {std::string(mine)};
  const auto count = static_cast<std::size_t>(size_);
  Envelope sent{static_cast<std::int64_t>(mine.size()), {}};
  std::memcpy(sent.text.data(), mine.data(), std::min(mine.size(), sent.text.size()));
  std::vector<Envelope> received(count);
  std::vector<std::vector<torch::Tensor>> outputs(1);
  for (const Envelope& envelope : received) outputs[0].push_back(bytes_over(&envelope, sizeof envelope));
  std::vector<torch::Tensor> inputs = {bytes_over(&sent, sizeof sent)};
  connection_->run([&] { connection_->group().allgather(outputs, inputs)->wait(); });

  std::int64_t longest = 0;
  for (const Envelope& envelope : received) longest = std::max(longest, envelope.bytes);
  std::vector<std::string> texts;
  if (longest <= kShort) {
    for (const Envelope& envelope : received)
      texts.emplace_back(envelope.text.data(), static_cast<std::size_t>(envelope.bytes));
    if (for_first_alone && !first()) texts.clear();
    return texts;
  }
  // Padded to the longest.
  std::string padded(mine);
  padded.resize(static_cast<std::size_t>(longest));
  inputs = {bytes_over(padded.data(), padded.size())};
  outputs.clear();
  if (!for_first_alone || first()) {
    texts.assign(count, padded);
    outputs.resize(1);
    for (const std::string& text : texts) outputs[0].push_back(bytes_over(text.data(), text.size()));
  }
  connection_->run([&] {
    if (!for_first_alone) {
      connection_->group().allgather(outputs, inputs)->wait();
      return;
    }
    c10d::GatherOptions to_first;
    to_first.rootRank = 0;
    connection_->group().gather(outputs, inputs, to_first)->wait();
  });
  for (std::size_t i = 0; i < texts.size(); ++i) texts[i].resize(static_cast<std::size_t>(received[i].bytes));
  return texts;
}

std::vector<std::string> Ranks::all_gather(std::string_view mine) { return exchange(mine, /*for_first_alone=*/false); }

std::vector<std::string> Ranks::gather(std::string_view mine) { return exchange(mine, /*for_first_alone=*/true); }

std::string Ranks::broadcast(std::string_view firsts) { return all_gather(first() ? firsts : "").front(); }

bool Ranks::any(bool mine) {
  if (alone()) return mine;
  return std::ranges::any_of(all_gather(mine ? "1" : ""), [](const std::string& said) { return !said.empty(); });
}

void Ranks::add_up(torch::Tensor& values) {
  if (alone()) return;
  std::vector<torch::Tensor> tensors = {values};
  connection_->run([&] { connection_->group().allreduce(tensors)->wait(); });
}

void Ranks::say_failure(const std::string& reason) noexcept {
  if (connection_) connection_->say_failure(reason);
}

struct RankWatch::State {
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group;  // the thread's
  std::function<bool()> sound;
  std::function<void()> lost;

  std::mutex mutex;
  std::condition_variable changed;
  bool leaving = false, all_left = false, ended = false;
  std::chrono::steady_clock::time_point leaving_since;

  // Whether all ranks are leaving; waits for a word of each.
  bool all_leaving(bool own) const {
    std::int32_t least = own ? 1 : 0;
    std::vector<torch::Tensor> words = {torch::from_blob(&least, {1}, torch::kInt32)};
    c10d::AllreduceOptions options;
    options.reduceOp = c10d::ReduceOp::MIN;
    group->allreduce(words, options)->wait();
    return least != 0;
  }

  // Exchanges words until all are leaving, or a rank is gone, or this one has waited for the others for long enough.
  void exchange_words() {
    try {
      std::unique_lock lock(mutex);
      for (;;) {
        const bool own = leaving;
        if (own && std::chrono::steady_clock::now() - leaving_since > kLeaving) return;
        lock.unlock();
        if (!sound()) return;
        const bool all = all_leaving(own);
        lock.lock();
        all_left = all;
        if (all) return;
        // Who leaves goes on at the others' pace.
        changed.wait_for(lock, own ? kBetweenLooks : kBetweenWords, [&] { return leaving && !own; });
      }
    } catch (const std::exception&) {  // a rank is gone
    }
  }
};

RankWatch::RankWatch(Ranks& ranks, std::function<bool()> sound, std::function<void()> lost)
    : state_(std::make_shared<State>()) {
  state_->group = ranks.connection_->connect_again();
  state_->sound = std::move(sound);
  state_->lost = std::move(lost);
  thread_ = std::thread([state = state_] { watch(state); });
}

void RankWatch::watch(const std::shared_ptr<State>& state) {
  state->exchange_words();
  state->group.reset();  // the others notice now
  std::unique_lock lock(state->mutex);
  if (!state->leaving) {
    lock.unlock();
    state->lost();
    lock.lock();
  }
  state->ended = true;
  state->changed.notify_all();
}

bool RankWatch::leave() {
  if (!thread_.joinable()) return state_->all_left;
  bool ended = false;
  {
    std::unique_lock lock(state_->mutex);
    state_->leaving = true;
    state_->leaving_since = std::chrono::steady_clock::now();
    state_->changed.notify_all();
    ended = state_->changed.wait_for(lock, kLeaving + kEnding, [&] { return state_->ended; });
  }
  ended ? thread_.join() : thread_.detach();
  return ended && state_->all_left;
}

Block block_of(std::int64_t count, int rank, int size) {
  const std::int64_t first = count * rank / size;
  return {first, count * (rank + 1) / size - first};
}

}  // namespace engram
