#include "experiments/probe/options.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/text/formatted.h"
#include "base/text/text.h"
#include "experiments/plan/experiment.h"
#include "experiments/results/csv.h"

namespace engram {
namespace {

template <class Number>
Number parse_number(const std::string& text, const char* option, Number low, Number high) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= low && value <= high))
    throw UserError(std::string("--") + option + " has '" + text + "'; it takes numbers " + number_text(low) + ".." +
                    number_text(high));
  return value;
}

}  // namespace

void ProbeOptions::list_options(OptionList& list) {
  list.add(
      "tasks", tasks,
      "tasks, separated by commas, each NAME or NAME:key=value:key=value; what an entry leaves open is the preset's");
  list.add(
      "backbones", backbones,
      "backbones, each NAME or NAME:key=value..., the keys those of [memory]; a value that is a list is put in square "
      "brackets: stack:stack=[deltanet,window:window=8]");
  list.add("seeds", seeds, "seeds of weights and sequences: 0-4,8");
  list.add("rates", rates, "learning rates; of several the one that is best in validation counts");
  list.add("layers", layers, "layers of the backbones: a number, or published (2; modular 3, retrieval 1)");
  list.add("width", width, {1, 1 << 14}, "width of the backbones");
  list.add("match", match, {{Match::kNone, "none"}, {Match::kParameters, "parameters"}},
           "parameters: the others get the widths at which they have as many as the first backbone");
  list.add("heads", heads, {1, 1 << 10}, "heads of those that have any");
  list.add("window", window, {1, 1 << 20}, "window or chunk of those that have one, steps");
  list.add("steps", training.steps, {1, kMostProbeSteps}, "training steps, at most");
  list.add("epochs", epochs, {0, 1'000'000},
           "the same in passes over a task's training set (its option training_sequences or languages); 0: --steps");
  list.add("batch", training.batch, {1, 1 << 20}, "sequences of a training step");
  list.add("warmup", training.warmup, {0, 1}, "part of the steps in which the rate rises to the one given");
  list.add("final_rate", training.final_rate, {0, 1},
           "what the rate falls to by a cosine, as a part of the one given; 1: it stays");
  list.add("weight_decay", training.weight_decay, {0, 10}, "of AdamW");
  list.add("decayed", training.decayed, {{Decayed::kMatrices, "matrices"}, {Decayed::kAll, "all"}},
           "what it shrinks: matrices but embeddings, or all parameters");
  list.add("clip_gradient_norm", training.clip_gradient_norm, {1e-9, 1e9}, "greatest norm of the whole gradient");
  list.add("validate_every", training.validate_every, {1, 100'000'000},
           "training steps from a validation to the next; the best one's weights are tested");
  list.add("patience", training.patience, {0, 100'000'000},
           "training steps without a better validation that end a training; 0: any number");
  list.add("stop_accuracy", training.stop_accuracy, {0, 1}, "accuracy in validation that ends a training");
  list.add("embedding_std", training.network.embedding_std, {1e-6, 10},
           "standard deviation of the symbols' first embeddings");
  list.add(
      "answers_by", training.network.answers_by, {{AnswersBy::kMap, "map"}, {AnswersBy::kEmbeddings, "embeddings"}},
      "what says an answer: a linear map, or, in tasks that answer with symbols of their sequences, the embeddings "
      "of these symbols");
  list.add("bfloat16", training.network.bfloat16, "activations and products in bfloat16, on a GPU");
  list.add("test_sequences", test_sequences, {1, 1 << 24}, "sequences of a test, rounded up to whole batches");
}

std::vector<std::string> probe_entries(const std::string& list, const std::string& option) {
  const std::vector<std::string> words = split_list(list);
  for (const std::string& word : words)
    if (word.empty()) throw UserError("--" + option + " '" + list + "' has an empty entry");
  return words;
}

std::vector<double> probe_rates(const ProbeOptions& options) {
  const std::string& text = options.rates;
  std::vector<double> rates;
  for (const std::string& word : probe_entries(text, "rates")) {
    const double rate = parse_number(word, "rates", 1e-8, 1.0);
    if (std::find(rates.begin(), rates.end(), rate) != rates.end())
      throw UserError("--rates '" + text + "' has " + word + " twice");
    rates.push_back(rate);
  }
  return rates;
}

std::optional<int> probe_layers(const ProbeOptions& options) {
  if (options.layers == "published") return std::nullopt;
  return parse_number(options.layers, "layers", 1, 256);
}

ScoreTable probe_table(const ProbeOptions& options, const std::string& metric, const std::string& units) {
  return {metric, units, probe_entries(options.tasks, "tasks"), probe_entries(options.backbones, "backbones"),
          parse_seeds(options.seeds)};
}

std::string with_text(const std::string& tasks, const std::string& file) {
  std::string result;
  int found = 0;
  for (const std::string& entry : probe_entries(tasks, "tasks")) {
    const NamedSettings given = parse_named_settings(entry);
    result += (result.empty() ? "" : ",") + entry;
    if (given.name != "text") continue;
    if (std::ranges::count(given.settings, "file", &std::pair<std::string, std::string>::first) > 0)
      throw UserError("--text '" + file + "' and '" + entry + "' both name a file");
    result += ":file=[" + file + "]";
    ++found;
  }
  if (found == 0) throw UserError("--text '" + file + "' is for the task text, which is not among --tasks " + tasks);
  return result;
}

}  // namespace engram
