#include "experiments/probe/task.h"

#include <ATen/Parallel.h>

#include <cstddef>
#include <map>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/text/suggest.h"
#include "base/text/text.h"
#include "experiments/probe/tasks/tasks.h"

namespace engram {
namespace {

struct Entry {
  ProbeTaskInfo info;
  std::unique_ptr<ProbeTask> (*make)();
};

const std::vector<Entry>& entries() {
  static const std::vector<Entry> all = {
      {{"parity", "whether the number of ones so far is odd"}, make_parity_task},
      {{"modular", "value modulo 5 of numbers joined by + - *"}, make_modular_task},
      {{"recall", "values of keys that were written once (MQAR)"}, make_recall_task},
      {{"rewritten", "last values of keys that were written several times"}, make_rewritten_task},
      {{"copy", "symbols said again after a delay"}, make_copy_task},
      {{"selective_copy", "the same, scattered among blanks"}, make_selective_copy_task},
      {{"retrieval", "value of one of many keys, a pair a step"}, make_retrieval_task},
      {{"mad_compress", "all symbols, from the output at the last one (MAD)"}, make_mad_compress_task},
      {{"mad_fuzzy_recall", "values of keys, each of several symbols (MAD)"}, make_mad_fuzzy_recall_task},
      {{"mad_recall", "values of keys that were shown before (MAD)"}, make_mad_recall_task},
      {{"mad_memorize", "values of keys, the same in all sequences (MAD)"}, make_mad_memorize_task},
      {{"mad_noisy_recall", "values of keys among noise (MAD)"}, make_mad_noisy_recall_task},
      {{"mad_selective_copy", "scattered symbols, said without a cue for each (MAD)"}, make_mad_selective_copy_task},
      {{"regbench", "a next symbol that an automaton allows, from its words (RegBench)"}, make_regbench_task},
      {{"text", "the next byte of a text file, in bits a byte"}, make_text_task}};
  return all;
}

// Batches of different splits have different numbers or purposes.
Rng random_of(Split split, std::uint64_t seed, std::uint32_t row, std::uint32_t batch) {
  constexpr std::uint32_t kFirstTestBatch = 1u << 31;
  if (split == Split::kTraining) return Rng(seed, Purpose::kTraining, row, batch);
  return Rng(seed, Purpose::kEvaluation, row, split == Split::kTest ? kFirstTestBatch + batch : batch);
}

// The numbers of a training set in the order of one pass over it.
std::vector<std::uint32_t> order_of_pass(std::uint64_t seed, std::uint32_t pass, int sequences) {
  std::vector<std::uint32_t> order(static_cast<std::size_t>(sequences));
  std::iota(order.begin(), order.end(), 0u);
  Rng random(seed, Purpose::kReplay, 0, pass);
  for (std::size_t i = order.size() - 1; i > 0; --i)
    std::swap(order[i], order[random.below(static_cast<std::uint32_t>(i) + 1)]);
  return order;
}

// What the sequences of batches from `first` on are drawn by.
std::vector<Rng> streams(const ProbeTask& task, Split split, std::uint64_t seed, std::uint32_t first,
                         std::int64_t batches, std::int64_t rows) {
  std::vector<Rng> all(static_cast<std::size_t>(batches * rows));
  const std::int64_t set = split == Split::kTraining ? task.training_sequences() : 0;
  std::map<std::int64_t, std::vector<std::uint32_t>> passes;
  for (std::int64_t i = 0; i < batches * rows; ++i) {
    auto row = static_cast<std::uint32_t>(i % rows), batch = first + static_cast<std::uint32_t>(i / rows);
    if (set > 0) {
      const std::int64_t number = first * rows + i, pass = number / set;
      if (!passes.contains(pass))
        passes[pass] = order_of_pass(seed, static_cast<std::uint32_t>(pass), static_cast<int>(set));
      row = passes[pass][static_cast<std::size_t>(number % set)], batch = 0;
    }
    all[static_cast<std::size_t>(i)] = random_of(split, seed, row, batch);
  }
  return all;
}

}  // namespace

const std::vector<ProbeTaskInfo>& probe_tasks() {
  static const std::vector<ProbeTaskInfo> tasks = [] {
    std::vector<ProbeTaskInfo> infos;
    for (const Entry& entry : entries()) infos.push_back(entry.info);
    return infos;
  }();
  return tasks;
}

std::unique_ptr<ProbeTask> probe_task_by_name(const std::string& name) {
  std::vector<std::string> names;
  for (const Entry& entry : entries()) {
    if (entry.info.name == name) return entry.make();
    names.push_back(entry.info.name);
  }
  throw UserError(unknown_name("probe task", name, names, "engram probe --help"));
}

std::unique_ptr<ProbeTask> make_probe_task(const std::string& entry) {
  const NamedSettings parsed = parse_named_settings(entry);
  auto task = probe_task_by_name(parsed.name);
  OptionList options("");
  task->list_options(options);
  try {
    for (const auto& [key, value] : parsed.settings) options.set(key, value);
    task->check();
    task->load();
  } catch (const UserError& error) {
    throw UserError("probe task '" + entry + "': " + error.what());
  }
  return task;
}

void list_training_sequences(OptionList& list, int& training_sequences) {
  list.add("training_sequences", training_sequences, {0, 100'000'000},
           "different sequences of training, which --epochs counts passes over; 0: all are new");
}

ProbeBatch ProbeTask::draw(Split split, std::uint64_t seed, std::uint32_t first, std::int64_t batches,
                           std::int64_t rows) const {
  const std::int64_t steps = length(split), asked = questions(split);
  const auto empty = [&](std::int64_t size) { return torch::empty({batches, rows, size}, torch::kInt64); };
  ProbeBatch batch{empty(steps), empty(asked), empty(asked), {}};
  if (several_right()) batch.right_BQ = empty(asked);
  std::int64_t* const symbol = batch.symbol_BT.data_ptr<std::int64_t>();
  std::int64_t* const position = batch.position_BQ.data_ptr<std::int64_t>();
  std::int64_t* const label = batch.label_BQ.data_ptr<std::int64_t>();
  std::int64_t* const right = several_right() ? batch.right_BQ.data_ptr<std::int64_t>() : nullptr;
  const std::vector<Rng> random = streams(*this, split, seed, first, batches, rows);
  at::parallel_for(0, batches * rows, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      fill(split, random[static_cast<std::size_t>(i)],
           {symbol + i * steps, position + i * asked, label + i * asked, right == nullptr ? right : right + i * asked});
  });
  return batch;
}

}  // namespace engram
