// What POPGym's paper reports, beside the runs of a comparison that measured the same: published_popgym.csv, which is
// compiled in.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "experiments/report/document.h"
#include "experiments/results/results.h"

namespace engram {

// Of a size of a task, which a preset of ours has the name of.
struct PublishedScore {
  std::string task;
  double mean = 0, deviation = 0;  // MMER of the GRU, over three trials
  double best = 0;                 // the highest mean of 13 memories
  std::string best_memory;         // its name, where it is known
};

// The rows of such a file. Throws UserError, `where` named, for what is none.
std::vector<PublishedScore> read_published(const std::string& text, const std::string& where);
const std::vector<PublishedScore>& published_popgym();

// A task and a backbone with finished runs on policy, and what was published of the same memory on the same task.
struct BesidePublished {
  std::size_t task, backbone;
  int runs;
  double mean, deviation;  // of their MMER; the latter 0 of one run
  PublishedScore published;

  double difference() const { return mean - published.mean; }
  // By more than three of the published standard deviations. One of 0.000 counts as 0.0005, which rounds to it.
  bool differs() const;
};
std::vector<BesidePublished> beside_published(const Results& results);
// A row for each, and for each backbone of several tasks the mean over these.
TextTable published_table(const Results& results, const std::vector<BesidePublished>& cells);

}  // namespace engram
