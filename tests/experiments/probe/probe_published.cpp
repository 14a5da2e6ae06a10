// The sequences of MAD, RegBench and published MQAR, and training sets: labels found again from the sequences alone,
// distributions by counting, and the memory that is trained alone against its recurrence.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text/text.h"
#include "experiments/probe/network.h"
#include "experiments/probe/task.h"
#include "tests/experiments/probe/probe_sequences.h"

using namespace engram;

namespace {

// The label of each place; that of the last place is what comes after the sequence.
Numbers by_place(const ProbeSequence& s) {
  Numbers labels(s.symbols.size(), kNotAsked);
  for (std::size_t q = 0; q < s.positions.size(); ++q) labels[static_cast<std::size_t>(s.positions[q])] = s.labels[q];
  return labels;
}

// Whether `count` of `draws` is what a probability gives, up to 5 standard errors.
bool likely(std::int64_t count, std::int64_t draws, double probability) {
  const double expected = probability * static_cast<double>(draws);
  return std::abs(static_cast<double>(count) - expected) <= 5 * std::sqrt(expected * (1 - probability));
}

}  // namespace

TEST_CASE("MAD's recall asks in training for every next symbol, in tests for the values of keys shown before") {
  for (const bool noisy : {false, true}) {
    const std::string entry = noisy ? "mad_noisy_recall:vocabulary=26:noise_vocabulary=10:noise=0.3:length=40"
                                    : "mad_recall:vocabulary=16:length=40";
    std::int64_t noise = 0, pairs = 0;
    std::map<std::int64_t, std::int64_t> times;  // of symbols
    for (const Split split : {Split::kTraining, Split::kTest})
      for (const ProbeSequence& s : sequences(*make_probe_task(entry), split, 3, 400)) {
        REQUIRE(s.symbols.size() == 39);
        const Numbers labels = by_place(s);
        // The symbol behind the last place is its label, which is always asked.
        Numbers whole = s.symbols;
        whole.push_back(labels.back());
        std::map<std::int64_t, std::int64_t> value_of;
        for (std::size_t t = 0; t < 40; t += 2) {
          const std::int64_t key = whole[t], value = whole[t + 1];
          const bool is_noise = key >= 16, known = value_of.contains(key);
          CHECK((value >= 16) == is_noise);
          if (!is_noise) CHECK((key < 8 && value >= 8));
          if (known) CHECK(value == value_of[key]);
          if (!is_noise) value_of[key] = value;
          const bool last = t == 38;
          if (last) CHECK(known);
          // The value is asked at its key, the next key at the value.
          if (split == Split::kTraining) {
            CHECK(labels[t] == value);
            if (!last) CHECK(labels[t + 1] == whole[t + 2]);
          } else {
            CHECK(labels[t] == (known ? value : kNotAsked));
            if (!last) CHECK(labels[t + 1] == kNotAsked);
          }
          if (last) continue;
          noise += is_noise, ++pairs, ++times[key];
        }
      }
    // One place of 19 is never noise.
    CHECK(likely(noise, pairs, noisy ? 0.3 * 18 / 19 : 0));
    for (std::int64_t key = 0; key < 8; ++key) CHECK(likely(times[key], pairs - noise, 1.0 / 8));
  }
}

TEST_CASE("MAD's fuzzy recall has keys and values of several symbols, and asks for those of known keys") {
  // Keys are of symbols 0 to 3, values of 4 to 8, 9 fills up.
  const std::string entry = "mad_fuzzy_recall:vocabulary=10:length=60:key_length=2:value_length=3";
  std::map<std::size_t, std::int64_t> key_sizes[2], value_sizes;
  std::int64_t pairs[2] = {0, 0};
  for (const Split split : {Split::kTraining, Split::kTest})
    for (const ProbeSequence& s : sequences(*make_probe_task(entry), split, 3, 300)) {
      const bool training = split == Split::kTraining;
      REQUIRE(s.symbols.size() == 60);
      const Numbers labels = by_place(s);
      Numbers whole = s.symbols;
      whole.push_back(labels.back());
      std::size_t t = 0;
      while (whole[t] == 9) ++t;
      CHECK(t >= 1);
      std::set<std::size_t> asked;  // places of values of known keys
      std::map<Numbers, Numbers> value_of;
      bool last_known = false;
      while (t < whole.size()) {
        Numbers key, value;
        for (; t < whole.size() && whole[t] < 4; ++t) key.push_back(whole[t]);
        const std::size_t first = t;
        for (; t < whole.size() && whole[t] >= 4 && whole[t] < 9; ++t) value.push_back(whole[t]);
        CHECK((!key.empty() && key.size() <= 2 && !value.empty() && value.size() <= 3));
        if (!training) CHECK(key.size() == 2);
        CHECK(std::set(key.begin(), key.end()).size() == key.size());
        CHECK(std::set(value.begin(), value.end()).size() == value.size());
        last_known = value_of.contains(key);
        if (last_known) {
          CHECK(value == value_of[key]);
          for (std::size_t place = first; place < t; ++place) asked.insert(place);
        } else if (t < whole.size()) {
          ++value_sizes[value.size()];
        }
        value_of[key] = value;
        if (t < whole.size()) ++key_sizes[training ? 0 : 1][key.size()], ++pairs[training ? 0 : 1];
      }
      CHECK(last_known);
      for (std::size_t place = 0; place < 60; ++place)
        CHECK(labels[place] == (training || asked.contains(place + 1) ? whole[place + 1] : kNotAsked));
    }
  // The last key has its own place among the others, and longer pairs end a sequence sooner: about a half.
  CHECK(static_cast<double>(key_sizes[0][1]) / static_cast<double>(pairs[0]) == doctest::Approx(0.5).epsilon(0.06));
  CHECK(key_sizes[1][2] == pairs[1]);
  const auto values = static_cast<double>(value_sizes[1] + value_sizes[2] + value_sizes[3]);
  for (const std::size_t size : {1, 2, 3})
    CHECK(static_cast<double>(value_sizes[size]) / values == doctest::Approx(1.0 / 3).epsilon(0.1));
}

TEST_CASE("MAD's memorize has one value of each key in all sequences, seeds and splits, and never shows it") {
  std::map<std::int64_t, std::int64_t> value_of;
  const auto task = make_probe_task("mad_memorize:vocabulary=20:length=12");
  for (const std::uint64_t seed : {1, 2})
    for (const Split split : {Split::kTraining, Split::kValidation, Split::kTest}) {
      const ProbeBatch batch = task->draw(split, seed, 0, 1, 100);
      for (std::int64_t b = 0; b < 100; ++b) {
        const Numbers symbols = numbers(batch.symbol_BT[0][b]), positions = numbers(batch.position_BQ[0][b]),
                      labels = numbers(batch.label_BQ[0][b]);
        REQUIRE(positions == Numbers{1, 3, 5, 7, 9, 11});
        for (std::size_t q = 0; q < 6; ++q) {
          const std::int64_t key = symbols[2 * q];
          CHECK((key >= 0 && key < 9 && symbols[2 * q + 1] == 19));
          CHECK((labels[q] >= 9 && labels[q] < 19));
          CHECK(value_of.try_emplace(key, labels[q]).first->second == labels[q]);
        }
      }
    }
  CHECK(value_of.size() == 9);
  std::set<std::int64_t> values;
  for (const auto& [key, value] : value_of) values.insert(value);
  CHECK(values.size() == 9);  // no two keys have the same
}

TEST_CASE("MAD's compress asks for all symbols and the sign that ends them") {
  std::map<std::int64_t, std::int64_t> times;
  for (const ProbeSequence& s :
       sequences(*make_probe_task("mad_compress:vocabulary=5:length=10"), Split::kTest, 3, 300)) {
    CHECK(s.labels == s.symbols);
    CHECK(s.positions == Numbers{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
    CHECK(s.symbols.back() == 4);
    for (std::size_t t = 0; t < 9; ++t) ++times[s.symbols[t]];
  }
  for (std::int64_t symbol = 0; symbol < 4; ++symbol) CHECK(likely(times[symbol], 2700, 0.25));
  CHECK(times.size() == 4);
}

TEST_CASE("MAD's selective copying scatters symbols before a sign and asks for them behind it, without a cue") {
  std::map<std::size_t, std::int64_t> blanks_before;
  for (const ProbeSequence& s :
       sequences(*make_probe_task("mad_selective_copy:vocabulary=6:length=20:items=4"), Split::kTest, 3, 1000)) {
    REQUIRE(s.symbols.size() == 20);
    CHECK(s.symbols[15] == 5);
    Numbers items;
    std::size_t blanks = 0;
    for (std::size_t t = 0; t < 15; ++t) {
      if (s.symbols[t] == 4) {
        ++blanks;
        continue;
      }
      blanks_before[items.size()] += static_cast<std::int64_t>(blanks), blanks = 0;
      items.push_back(s.symbols[t]);
    }
    CHECK(blanks == 0);  // the sign follows the last symbol
    CHECK(s.labels == items);
    CHECK(s.positions == Numbers{16, 17, 18, 19});
    for (std::size_t t = 16; t < 20; ++t) CHECK(s.symbols[t] == 4);
  }
  for (const auto& [item, blanks] : blanks_before) CHECK(likely(blanks, 11'000, 0.25));
}

// From a sequence alone: what may follow depends on the word so far, and on nothing else.
TEST_CASE("RegBench's words are those of an automaton, and right is what it writes in that state") {
  const std::string entry = "regbench:languages=500:max_states=6:alphabet=8:words=10:word_length=12";
  const auto task = make_probe_task(entry);
  std::map<std::size_t, std::int64_t> arcs;
  std::map<std::int64_t, std::int64_t> words_of_sequence, word_lengths;
  std::set<std::int64_t> alphabets;
  std::int64_t taken = 0, lowest = 0, different_successors = 0;
  for (const Split split : {Split::kTraining, Split::kTest})
    for (const ProbeSequence& s : sequences(*make_probe_task(entry), split, 3, 500)) {
      REQUIRE(s.symbols.size() == 9 * 12 - 2);
      std::set<std::int64_t> first_sets, seen;
      std::map<Numbers, std::int64_t> right_after;  // the symbols of a word so far
      std::set<std::int64_t> after_one_symbol;
      Numbers word;
      std::int64_t words = 1, length = 1;
      // The set of the first symbol of a word is that of the first state: the same after every separator.
      for (std::size_t t = 0; t < s.symbols.size(); ++t) {
        const std::int64_t symbol = s.symbols[t];
        if (symbol == 9) {  // padding is not asked, and nothing comes behind it
          CHECK(s.labels[t] == kNotAsked);
          if (t + 1 < s.symbols.size()) CHECK(s.symbols[t + 1] == 9);
          continue;
        }
        if (s.labels[t] == kNotAsked) {
          CHECK(s.right[t] == 0);
          if (t + 1 < s.symbols.size()) CHECK((s.symbols[t + 1] == 8 || s.symbols[t + 1] == 9));
        } else {
          const std::int64_t next = s.labels[t], right = s.right[t];
          if (t + 1 < s.symbols.size() && s.symbols[t + 1] != 9) CHECK(s.symbols[t + 1] == next);
          CHECK((next >= 0 && next < 8));
          CHECK((right >> next & 1) == 1);
          CHECK(right < 256);
          std::size_t count = 0;
          for (int bit = 0; bit < 8; ++bit) count += static_cast<std::size_t>(right >> bit & 1);
          CHECK((count >= 1 && count <= 3));
          if (symbol == 8)
            word.clear();
          else
            word.push_back(symbol);
          CHECK(right_after.try_emplace(word, right).first->second == right);
          if (word.empty()) first_sets.insert(right);
          if (word.size() == 1) after_one_symbol.insert(right);
          if (count == 2) ++taken, lowest += (right & ((std::int64_t{1} << next) - 1)) == 0;
          seen.insert(next);
          ++arcs[count];
        }
        if (symbol == 8) {
          CHECK((length >= 1 && length <= 11));
          ++word_lengths[length], ++words, length = 0;
        } else if (t > 0) {
          ++length;
        }
      }
      CHECK(first_sets.size() == 1);
      different_successors += after_one_symbol.size() > 1;
      CHECK((words >= 5 && words <= 9));
      ++words_of_sequence[words];
      alphabets.insert(static_cast<std::int64_t>(seen.size()));
    }
  CHECK(words_of_sequence.size() == 5);
  for (const auto& [words, times] : words_of_sequence) CHECK(likely(times, 1000, 0.2));
  CHECK(word_lengths.size() == 11);
  CHECK(arcs.size() == 3);
  // Of two symbols that a state writes each comes as often as the other.
  CHECK(likely(lowest, taken, 0.5));
  CHECK(*alphabets.rbegin() == 8);
  // Arcs of a state lead to different states: seen in sequences whose first state has several.
  CHECK(different_successors > 500);
}

TEST_CASE("a training set comes whole and in another order in every pass, for every seed other sequences") {
  const auto task = make_probe_task("regbench:languages=24:max_states=5:alphabet=6:words=4:word_length=5");
  const auto rows = [&](std::uint64_t seed, std::uint32_t first, std::int64_t batches) {
    const torch::Tensor drawn = task->draw(Split::kTraining, seed, first, batches, 10).symbol_BT.flatten(0, 1);
    std::vector<Numbers> all;
    for (std::int64_t i = 0; i < drawn.size(0); ++i) all.push_back(numbers(drawn[i]));
    return all;
  };
  const std::vector<Numbers> all = rows(1, 0, 12);  // five passes of 24
  const std::vector<Numbers> first(all.begin(), all.begin() + 24), second(all.begin() + 24, all.begin() + 48);
  CHECK(std::set(first.begin(), first.end()) == std::set(second.begin(), second.end()));
  CHECK(first != second);
  CHECK(std::set(first.begin(), first.end()).size() > 20);
  CHECK(std::set(all.begin(), all.end()) == std::set(first.begin(), first.end()));
  CHECK(std::vector<Numbers>(all.begin() + 30, all.begin() + 50) == rows(1, 3, 2));
  CHECK(std::set(first.begin(), first.end()) != [&] {
    const std::vector<Numbers> other = rows(2, 0, 12);
    return std::set(other.begin(), other.end());
  }());
}

TEST_CASE("published recall asks every key once, at every second place, likelier the sooner") {
  const std::string entry = "recall:pairs=3:length=26:alphabet=9:train_pairs=all:queries=power_law";
  std::map<std::int64_t, std::int64_t> asked_at;  // gap -> times
  constexpr std::int64_t kRows = 20'000;
  for (const ProbeSequence& s : sequences(*make_probe_task(entry), Split::kTraining, 3, kRows)) {
    std::map<std::int64_t, std::int64_t> value;
    for (std::size_t i = 0; i < 3; ++i) value[s.symbols[2 * i]] = s.symbols[2 * i + 1] - 9;
    REQUIRE(value.size() == 3);
    std::set<std::int64_t> places;
    for (std::size_t q = 0; q < 3; ++q) {
      const std::int64_t place = s.positions[q];
      CHECK((place >= 6 && place % 2 == 0));
      CHECK(places.insert(place).second);
      CHECK(s.labels[q] == value.at(s.symbols[static_cast<std::size_t>(place)]));
    }
    ++asked_at[(s.positions[0] - 6) / 2];  // the first drawn follows the law itself
  }
  double sum = 0;
  for (int gap = 0; gap < 10; ++gap) sum += std::pow(gap + 1, -0.99);
  for (int gap = 0; gap < 10; ++gap) CHECK(likely(asked_at[gap], kRows, std::pow(gap + 1, -0.99) / sum));
  CHECK_THROWS_WITH_AS(
      make_probe_task("recall:pairs=3:length=11:alphabet=9:queries=power_law"),
      "probe task 'recall:pairs=3:length=11:alphabet=9:queries=power_law': length 11 is too short: the "
      "pairs and questions take 12",
      UserError);
}

// Step by step: what is written by each rule, and read by the last step's query.
TEST_CASE("a memory alone reads what its rule has written step by step") {
  constexpr std::int64_t kKeys = 4, kWidth = 3;
  const std::string entry = "retrieval:model=memory:rewritten=true:keys=4";
  const auto task = make_probe_task(entry);
  CHECK(task->questions(Split::kTraining) == 1);
  CHECK(task->questions(Split::kTest) == kKeys);
  const ProbeBatch drawn = task->draw(Split::kTest, 5, 0, 1, 6);
  const ProbeBatch batch{drawn.symbol_BT[0], drawn.position_BQ[0], drawn.label_BQ[0], {}};
  CHECK((batch.label_BQ == kNotAsked).any().item<bool>());  // some key has no pair
  const auto config = [](const std::string& text) {
    const NamedSettings parsed = parse_named_settings(text);
    BackboneConfig made(parsed.name);
    OptionList list = made.options();
    list.set("memory.width", "3"), list.set("memory.heads", "1");
    for (const auto& [key, value] : parsed.settings) list.set("memory." + key, value);
    return made;
  };
  for (const std::string backbone :
       {"transformer", "linear_transformer", "dpfp", "delta_2021",
        "fast_weights:rule=delta:feature_map=relu:key_norm=l2",
        "fast_weights:rule=sum:write_strength=one:feature_map=identity:key_norm=none:beta_factor=1"}) {
    CAPTURE(backbone);
    torch::manual_seed(7);
    const auto network = make_probe_network(*task, config(backbone), {}, 0);
    network->to(torch::kFloat64);
    const auto p = network->named_parameters();
    const auto relu = [](const torch::Tensor& x) { return x.clamp_min(0); };
    const auto dpfp = [&](const torch::Tensor& x) {
      const torch::Tensor r = torch::cat({relu(x), relu(-x)});
      return r * torch::cat({r.narrow(0, 2 * kWidth - 1, 1), r.narrow(0, 0, 2 * kWidth - 1)});
    };
    const auto feature = [&](const torch::Tensor& x) {
      if (backbone == "linear_transformer") return torch::where(x > 0, x + 1, x.exp());
      if (backbone == "dpfp") return dpfp(x);
      if (backbone == "delta_2021") return dpfp(x) / (dpfp(x).sum() + 1e-6);
      if (backbone.find("relu") != std::string::npos) return relu(x) / (relu(x).square().sum() + 1e-6).sqrt();
      return x;
    };
    const torch::Tensor answers = network->forward(batch);
    for (std::int64_t b = 0; b < 6; ++b) {
      const Numbers symbols = numbers(batch.symbol_BT[b]);
      torch::Tensor memory_VK, key_sum, scores, values;
      for (std::size_t t = 0; t < 2 * kKeys; ++t) {
        const torch::Tensor value = torch::zeros({kKeys}, torch::kFloat64);
        value[symbols[t] / kKeys] = 1;
        const torch::Tensor in = torch::cat({p["embedding.weight"][symbols[t] % kKeys], value});
        const torch::Tensor key = feature(p["key.weight"].mv(in) + p["key.bias"]);
        if (!memory_VK.defined()) {
          memory_VK = torch::zeros({kKeys, key.size(0)}, torch::kFloat64);
          key_sum = torch::zeros_like(key);
        }
        torch::Tensor written = value;
        if (p.contains("strength.weight")) {
          const torch::Tensor strength = torch::sigmoid(p["strength.weight"].mv(in) + p["strength.bias"]);
          written = (backbone == "delta_2021" ? 1 : 2) * strength * (value - memory_VK.mv(key));
        }
        memory_VK = memory_VK + torch::outer(written, key);
        key_sum = key_sum + key;
        scores = scores.defined() ? torch::cat({scores, key.unsqueeze(0)}) : key.unsqueeze(0);
        values = values.defined() ? torch::cat({values, value.unsqueeze(0)}) : value.unsqueeze(0);
      }
      for (std::int64_t q = 0; q < kKeys; ++q) {
        const torch::Tensor query = feature(p["query.weight"].mv(p["embedding.weight"][q]) + p["query.bias"]);
        torch::Tensor expected = memory_VK.mv(query);
        if (backbone == "linear_transformer" || backbone == "dpfp") expected = expected / (key_sum.dot(query) + 1e-6);
        if (backbone == "transformer")
          expected = values.t().mv(torch::softmax(scores.mv(query) / std::sqrt(double{kWidth}), 0));
        CHECK(torch::allclose(answers[b][q], expected, 1e-5, 1e-7));
      }
    }
  }
  CHECK_THROWS_WITH_AS(check_bare_memory(BackboneConfig("gru")),
                       "'gru' has no memory that stands alone; transformer and fast weights have one", UserError);
  CHECK_THROWS_WITH_AS(check_bare_memory(BackboneConfig("deltanet")), "a memory alone has one head, not heads 2",
                       UserError);
  CHECK_THROWS_AS(check_bare_memory(config("gla")), UserError);
  CHECK_THROWS_AS(check_bare_memory(config("mlstm")), UserError);
}

TEST_CASE("wrong sizes of published tasks are refused by name") {
  const auto refusal = [](const std::string& entry) {
    try {
      make_probe_task(entry);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(refusal("mad_recall:length=33") == "probe task 'mad_recall:length=33': length 33 is not even");
  CHECK(refusal("mad_noisy_recall:vocabulary=16") ==
        "probe task 'mad_noisy_recall:vocabulary=16': vocabulary 16 leaves 0 keys; it takes 1");
  CHECK(refusal("mad_fuzzy_recall:vocabulary=6") ==
        "probe task 'mad_fuzzy_recall:vocabulary=6': vocabulary 6 leaves 2 keys; it takes 3");
  CHECK(refusal("mad_fuzzy_recall:length=22") ==
        "probe task 'mad_fuzzy_recall:length=22': length 22 is too short: keys and values take 24");
  CHECK(refusal("mad_selective_copy:length=32") ==
        "probe task 'mad_selective_copy:length=32': length 32 is too short for items 16: they take more than 33");
  CHECK(refusal("retrieval:model=memory:loss=cross_entropy") ==
        "probe task 'retrieval:model=memory:loss=cross_entropy': model=memory has loss=squared: what is read are "
        "values, not logits");
}
