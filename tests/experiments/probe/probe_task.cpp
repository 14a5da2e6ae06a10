// The probes' sequences: answers found again in another way, and streams that never meet.
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
#include "experiments/probe/task.h"
#include "tests/experiments/probe/probe_sequences.h"

using namespace engram;

namespace {

const std::vector<std::string> kEntries = {"parity:train_length=10:test_length=30:answers=every",
                                           "modular:train_length=9:test_length=30:answers=every:equals=false",
                                           "recall:pairs=5:length=30:alphabet=9",
                                           "rewritten:pairs=5:length=30:alphabet=9",
                                           "copy:items=3:alphabet=4:delay=6",
                                           "modular:train_length=9:test_length=30",
                                           "selective_copy:items=3:alphabet=4:length=8",
                                           "retrieval:keys=7",
                                           "retrieval:keys=7:rewritten=true"};

// With precedence, by splitting at + and - first.
std::int64_t value_of(const std::vector<std::int64_t>& symbols, std::size_t count) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < count;) {
    std::int64_t product = i > 0 && symbols[i - 1] == 6 ? -1 : 1;
    product *= symbols[i];
    for (i += 2; i < count && symbols[i - 1] == 7; i += 2) product = product * symbols[i] % 5;
    sum += product;
  }
  return ((sum % 5) + 5) % 5;
}

}  // namespace

TEST_CASE("parity and values of expressions are those of the prefixes, of all lengths asked") {
  for (const Split split : {Split::kTraining, Split::kTest}) {
    const auto parity = make_probe_task(kEntries[0]), modular = make_probe_task(kEntries[1]);
    for (const ProbeSequence& s : sequences(*parity, split, 3, 40)) {
      REQUIRE(s.positions.size() == static_cast<std::size_t>(split == Split::kTraining ? 8 : 21));
      for (std::size_t q = 0; q < s.positions.size(); ++q) {
        CHECK(s.positions[q] == static_cast<std::int64_t>(q) + (split == Split::kTraining ? 2 : 9));
        std::int64_t ones = 0;
        for (std::int64_t t = 0; t <= s.positions[q]; ++t) ones += s.symbols[t];
        CHECK(s.labels[q] == ones % 2);
      }
    }
    for (const ProbeSequence& s : sequences(*modular, split, 3, 40)) {
      // Odd lengths 3, 5, 7, 9 in training, 9, 11, ... 29 in testing.
      REQUIRE(s.positions.size() == static_cast<std::size_t>(split == Split::kTraining ? 4 : 11));
      for (std::size_t q = 0; q < s.positions.size(); ++q) {
        CHECK(s.positions[q] == static_cast<std::int64_t>(2 * q) + (split == Split::kTraining ? 2 : 8));
        CHECK(s.labels[q] == value_of(s.symbols, static_cast<std::size_t>(s.positions[q]) + 1));
      }
      for (std::size_t t = 0; t < s.symbols.size(); ++t) CHECK((s.symbols[t] >= 5) == (t % 2 == 1));
    }
  }
}

TEST_CASE("as published, training asks for one prefix, of any length, and testing for all") {
  for (const std::string name : {"parity", "modular"}) {
    CAPTURE(name);
    const std::string lengths_text =
        ":train_length=9:test_length=30" + std::string(name == "modular" ? ":equals=false" : "");
    const auto every = make_probe_task(name + lengths_text + ":answers=every");
    const auto last = make_probe_task(name + lengths_text);
    CHECK(last->questions(Split::kTest) == every->questions(Split::kTest));
    REQUIRE(last->questions(Split::kTraining) == 1);
    std::set<std::int64_t> lengths;
    for (const ProbeSequence& s : sequences(*last, Split::kTraining, 3, 100)) {
      lengths.insert(s.positions[0] + 1);
      std::int64_t ones = 0;
      for (std::int64_t t = 0; t <= s.positions[0]; ++t) ones += s.symbols[t];
      CHECK(s.labels[0] ==
            (name == "parity" ? ones % 2 : value_of(s.symbols, static_cast<std::size_t>(s.positions[0]) + 1)));
    }
    const std::set<std::int64_t> expected =
        name == "parity" ? std::set<std::int64_t>{3, 4, 5, 6, 7, 8, 9} : std::set<std::int64_t>{3, 5, 7, 9};
    CHECK(lengths == expected);
  }
}

TEST_CASE("as published, the value of an expression is asked at the sign = that ends it") {
  const auto task = make_probe_task(kEntries[5]);
  for (const Split split : {Split::kTraining, Split::kTest}) {
    REQUIRE(task->questions(split) == 1);
    std::set<std::int64_t> lengths;  // of expression, sign and answer
    for (const ProbeSequence& s : sequences(*task, split, 3, 200)) {
      const auto sign = static_cast<std::size_t>(s.positions[0]);
      lengths.insert(s.positions[0] + 2);
      CHECK(s.labels[0] == value_of(s.symbols, sign));
      for (std::size_t t = 0; t < s.symbols.size(); ++t) {
        CHECK((s.symbols[t] == 8) == (t == sign));
        CHECK((s.symbols[t] >= 5) == (t % 2 == 1));
      }
    }
    CHECK(lengths == (split == Split::kTraining ? std::set<std::int64_t>{3, 5, 7, 9}
                                                : std::set<std::int64_t>{9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29}));
  }
}

TEST_CASE("an asked key has the value that was written to it last") {
  for (const bool rewritten : {false, true})
    for (const Split split : {Split::kTraining, Split::kTest}) {
      std::size_t most_writes = 0;
      for (const ProbeSequence& s : sequences(*make_probe_task(kEntries[rewritten ? 3 : 2]), split, 3, 100)) {
        std::map<std::int64_t, std::int64_t> value;
        std::size_t writes = 0;
        for (; s.symbols[2 * writes] < 9 && s.symbols[2 * writes + 1] >= 9 && s.symbols[2 * writes + 1] < 18; ++writes)
          value[s.symbols[2 * writes]] = s.symbols[2 * writes + 1] - 9;
        most_writes = std::max(most_writes, writes);
        if (split == Split::kTest) CHECK(writes == (rewritten ? 10 : 5));
        if (!rewritten) CHECK(value.size() == writes);
        std::set<std::int64_t> places;
        for (std::size_t q = 0; q < s.positions.size(); ++q) {
          CHECK(s.positions[q] >= static_cast<std::int64_t>(2 * writes));
          CHECK(places.insert(s.positions[q]).second);
          REQUIRE(value.count(s.symbols[s.positions[q]]) == 1);
          CHECK(value[s.symbols[s.positions[q]]] == s.labels[q]);
        }
        for (std::size_t t = 2 * writes; t < s.symbols.size(); ++t)
          CHECK((s.symbols[t] == 18) == (places.count(static_cast<std::int64_t>(t)) == 0));
      }
      CHECK(most_writes == (rewritten ? 10 : 5));
    }
}

TEST_CASE("what is to be copied is asked for in its order, after the delay") {
  std::set<std::int64_t> delays;
  for (const Split split : {Split::kTraining, Split::kTest})
    for (const ProbeSequence& s : sequences(*make_probe_task(kEntries[4]), split, 3, 100)) {
      const std::int64_t delay = s.positions[0] - 3;
      delays.insert(delay);
      if (split == Split::kTest) CHECK(delay == 6);
      for (std::size_t i = 0; i < 3; ++i) {
        CHECK(s.labels[i] == s.symbols[i]);
        CHECK(s.positions[i] == static_cast<std::int64_t>(i) + 3 + delay);
        CHECK(s.symbols[s.positions[i]] == 5);
      }
    }
  CHECK(delays.size() == 7);
}

TEST_CASE("scattered symbols are asked for in their order, wherever they stood") {
  constexpr int kItems = 3, kLength = 8, kBlank = 4, kGo = 5, kRows = 2000;
  for (const Split split : {Split::kTraining, Split::kTest}) {
    std::vector<int> taken(kLength);
    for (const ProbeSequence& s : sequences(*make_probe_task(kEntries[6]), split, 3, kRows)) {
      REQUIRE(s.symbols.size() == kLength + kItems);
      std::vector<std::int64_t> seen;
      for (std::size_t t = 0; t < kLength; ++t) {
        if (s.symbols[t] == kBlank) continue;
        seen.push_back(s.symbols[t]);
        ++taken[t];
      }
      CHECK(seen == s.labels);
      REQUIRE(s.positions.size() == kItems);
      for (std::size_t i = 0; i < kItems; ++i) {
        CHECK(s.positions[i] == static_cast<std::int64_t>(kLength + i));
        CHECK(s.symbols[kLength + i] == kGo);
      }
    }
    // Each place as often as any other: 5 standard errors around its share.
    const double share = static_cast<double>(kItems) / kLength;
    for (const int count : taken) CHECK(std::abs(count - kRows * share) < 5 * std::sqrt(kRows * share * (1 - share)));
  }
}

TEST_CASE("retrieval asks for the last value of one of the keys, a pair of a key and a value a step") {
  constexpr std::int64_t kKeys = 7;
  for (const bool rewritten : {false, true}) {
    const auto task = make_probe_task(kEntries[rewritten ? 8 : 7]);
    CHECK(task->layers() == 1);
    const std::size_t pairs = rewritten ? 2 * kKeys : kKeys;
    std::set<std::int64_t> asked;
    std::set<std::size_t> different_keys;
    for (const Split split : {Split::kTraining, Split::kTest})
      for (const ProbeSequence& s : sequences(*task, split, 3, 200)) {
        REQUIRE(s.symbols.size() == pairs + 1);
        REQUIRE(s.positions == std::vector<std::int64_t>{static_cast<std::int64_t>(pairs)});
        std::map<std::int64_t, std::int64_t> value_of_key;
        std::set<std::int64_t> values;
        for (std::size_t t = 0; t < pairs; ++t) {
          const std::int64_t key = s.symbols[t] % kKeys, value = s.symbols[t] / kKeys;
          CHECK(value < kKeys);
          value_of_key[key] = value;
          values.insert(value);
        }
        CHECK(s.symbols[pairs] / kKeys == kKeys);  // none stands beside the key that is asked
        const std::int64_t key = s.symbols[pairs] % kKeys;
        asked.insert(key);
        REQUIRE(value_of_key.count(key) == 1);
        CHECK(value_of_key[key] == s.labels[0]);
        different_keys.insert(value_of_key.size());
        if (!rewritten) CHECK(values.size() == kKeys);
      }
    CHECK(asked.size() == kKeys);
    if (rewritten)
      CHECK(different_keys.size() > 2);
    else
      CHECK(different_keys == std::set<std::size_t>{kKeys});
  }
}

TEST_CASE("sequences follow from seed, split, batch and row alone, and differ in each of them") {
  for (const std::string& entry : kEntries) {
    CAPTURE(entry);
    const auto task = make_probe_task(entry);
    const auto drawn = [&](Split split, std::uint64_t seed, std::uint32_t first, std::int64_t batches) {
      return task->draw(split, seed, first, batches, 16).symbol_BT;
    };
    const torch::Tensor base = drawn(Split::kTraining, 1, 0, 3);
    CHECK(torch::equal(base[2], drawn(Split::kTraining, 1, 2, 1)[0]));
    CHECK(!torch::equal(base[0], base[1]));
    CHECK(!torch::equal(base[0][0], base[0][1]));
    CHECK(!torch::equal(base, drawn(Split::kTraining, 2, 0, 3)));
    CHECK(!torch::equal(drawn(Split::kValidation, 1, 0, 3), drawn(Split::kTest, 1, 0, 3)));
    CHECK(base.min().item<std::int64_t>() >= 0);
    CHECK(base.max().item<std::int64_t>() < task->symbols() * std::max(1, task->second_symbols()));
    // Answers are about equally likely: 5 standard errors around it. Those of a sequence hang together: count
    // sequences.
    const ProbeBatch test = task->draw(Split::kTest, 1, 0, 1, 2000);
    for (int answer = 0; answer < task->classes(); ++answer) {
      const double fraction = (test.label_BQ == answer).to(torch::kFloat64).mean().item<double>();
      const double chance = 1.0 / task->classes();
      CHECK(std::abs(fraction - chance) < 5 * std::sqrt(chance * (1 - chance) / 2000));
    }
  }
}

TEST_CASE("wrong entries are refused by name") {
  CHECK_THROWS_WITH_AS(make_probe_task("party"), "unknown probe task 'party'; did you mean 'parity'?", UserError);
  CHECK_THROWS_WITH_AS(
      make_probe_task("zzzzzz"),
      "unknown probe task 'zzzzzz'; there are parity, modular, recall and 12 more; engram probe --help "
      "shows them",
      UserError);
  CHECK_THROWS_WITH_AS(make_probe_task("parity:length"), "'length' in 'parity:length' is not key=value", UserError);
  CHECK_THROWS_WITH_AS(
      make_probe_task("parity:train_length=40:test_length=40"),
      "probe task 'parity:train_length=40:test_length=40': test_length 40 is not above train_length 40", UserError);
  CHECK_THROWS_WITH_AS(make_probe_task("recall:pairs=9:alphabet=8"),
                       "probe task 'recall:pairs=9:alphabet=8': pairs 9 are more than the keys of alphabet 8",
                       UserError);
  CHECK_THROWS_WITH_AS(make_probe_task("recall:pairs=9:length=26"),
                       "probe task 'recall:pairs=9:length=26': length 26 is too short: the pairs and questions take 27",
                       UserError);
  CHECK_THROWS_WITH_AS(make_probe_task("modular:answers=every"),
                       "probe task 'modular:answers=every': answers=every needs equals=false: a sign = ends the "
                       "expression",
                       UserError);
  CHECK_THROWS_WITH_AS(make_probe_task("selective_copy:items=9:length=8"),
                       "probe task 'selective_copy:items=9:length=8': length 8 is too short for items 9", UserError);
  CHECK_THROWS_AS(make_probe_task("retrieval:keys=1"), UserError);
  CHECK_THROWS_AS(make_probe_task("recall:pair=9"), UserError);
  CHECK_THROWS_AS(make_probe_task("recall:pairs=many"), UserError);
  CHECK_THROWS_AS(make_probe_task(""), UserError);
}
