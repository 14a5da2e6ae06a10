// What a command computes on: the device that it makes current, and the CPU threads that training, evaluating and
// probing take, with the rule behind "0 threads".
//
// LibTorch spreads each of its operations over its threads and waits for the slowest of them. On a machine that does
// other work a thread waits for a processor, some milliseconds, in every one of the hundreds of operations of an
// update: where an operation itself takes microseconds, two threads were found to do 3% to 12% of the updates of one.
// So the rule looks at the size of the work. It measures nothing: the same config on the same machine takes the same
// number, whatever else the machine does, and so a resumed run sums its numbers in the same order.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

#include "agents/run/config/config.h"
#include "base/machine/processors.h"
#include "ranks/ranks.h"

namespace engram {

struct Threads {
  int count = 1;
  const char* reason = "";  // of the rule's choice; empty for a number that was asked for

  // "1 CPU thread (small network)", "4 CPU threads"
  std::string text() const;
};

// Multiply-adds of the forward pass of a backbone that learns from `batch` sequences of `steps` steps, as far as one
// operation takes them together: all steps, but one at a time of LSTM and GRU.
double learning_work(const BackboneConfig& backbone, std::int64_t batch, std::int64_t steps);
// The same of an agent's whole network in an update.
double update_work(const Config& config);
// Multiply-adds of an agent's network in one step of `environments`.
double acting_work(const Config& config, int environments);

// `wanted`, or where that is 0 the rule's choice of at most `limit` for work of this size: 1 thread for little,
// all of the limit for much.
Threads choose_threads(int wanted, double work, int limit = available_processors());

// Those of a training run, by run.threads and the larger of the batch of an update and a step of all environments. On a
// GPU, where only environments may want threads, 0 stands for all.
Threads training_threads(const Config& config, torch::Device device, int limit = available_processors());

// Those of an agent that acts in `environments` at once; `wanted` 0: by the rule. On a GPU 0 stands for 1.
Threads acting_threads(int wanted, const Config& config, int environments, torch::Device device);

// parse_device(), and a GPU becomes the current device of this thread for good: streams, launches and memory of
// whatever does not name a device go there. Before anything is allocated; LibTorch's own threads follow the tensors.
torch::Device use_device(const std::string& text);

// The same for one of several ranks, an exchange: of the GPUs that it sees, "cuda" and "auto" are the one whose number
// is its place among the ranks of its machine, or the only one. Throws UserError, in all ranks, where one has no such
// device, where two would share a GPU, or some compute on GPUs and others on CPUs.
torch::Device use_device(const std::string& text, Ranks& ranks);

// Of what the ranks have found: "cpu", "cuda " and what tells the GPU from all others, or "no " and the reason.
// Throws UserError as use_device() does.
void check_devices(const std::vector<std::string>& found);

// Throws UserError for a precision that the device has not: bfloat16 is a GPU's.
void check_precision(const Config& config, torch::Device device);

}  // namespace engram
