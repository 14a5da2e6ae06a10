// ForeignEnvs: environments that the project has no rules of, stepped by others, such as Gymnasium's through the Python
// package. They cannot be played again: nothing gives an episode back but what was recorded of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <utility>

#include "agents/play/recorded_env.h"
#include "base/rng.h"
#include "envs/task.h"

namespace engram {

// N environments. What they say of a step stands in N rows each, at addresses that stay, until the next call.
class ForeignEnvs {
 public:
  virtual ~ForeignEnvs() = default;

  virtual int size() const = 0;  // N
  // Begins a new episode in every environment; what is drawn from now on is by this seed, of 31 bits.
  virtual void reset(std::uint32_t seed) = 0;
  // A step of every environment. One that has ended an episode and not begun the next one may take this step to begin
  // it, and ignores its action then. What a step throws leaves environments behind that are not used any more.
  virtual void step(std::span<const std::int32_t> action_N) = 0;

  // Whether the action was taken, and then: the observation after it, its reward, whether it ended the episode, and
  // whether that was a success.
  virtual std::span<const std::uint8_t> stepped_N() const = 0;
  virtual const std::byte* observation_N() const = 0;
  virtual std::span<const float> reward_N() const = 0;
  virtual std::span<const End> end_N() const = 0;
  virtual std::span<const std::uint8_t> success_N() const = 0;
  // Whether an episode has begun, after a step that ended another one or without one; and its first observation.
  virtual std::span<const std::uint8_t> began_N() const = 0;
  virtual const std::byte* first_observation_N() const = 0;
};

// What environments threw, on its way to who began the run.
class EnvironmentFailure : public std::exception {
 public:
  explicit EnvironmentFailure(std::exception_ptr thrown) : cause(std::move(thrown)) {}
  const char* what() const noexcept override { return "environments have failed"; }

  std::exception_ptr cause;
};

// On the CPU, a look after every step. `task`: what the environments look like. Their seeds are drawn from the streams
// of (seed, purpose). Steps throw EnvironmentFailure, UserError in it where an episode is longer than the task says.
std::unique_ptr<RecordedEnv> make_recorded_env(std::unique_ptr<ForeignEnvs> environments, const TaskInfo& task,
                                               std::uint64_t seed, Purpose purpose);

}  // namespace engram
