#include "experiments/statistics/score_table.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/storage/temporary_folder.h"

using namespace engram;

namespace {

ScoreTable small_table() {
  ScoreTable table("success", "fraction of episodes", {"a, \"b\"", "line\nend"}, {"hqlt", "none"},
                   {0, 18446744073709551615u, 7});
  table.at(0, 0, 0) = 0.1;
  table.at(0, 1, 2) = 1.0 / 3;
  table.at(1, 0, 1) = -1e-300;
  table.at(1, 1, 2) = 0;
  return table;
}

std::string json_error(const std::string& text) {
  return message_of<UserError>([&] { ScoreTable::from_json(text, "it"); });
}

std::string csv_error(const std::string& text) {
  return message_of<UserError>([&] { ScoreTable::from_csv("metric,units,task,method,seed,score\n" + text, "it"); });
}

}  // namespace

TEST_CASE("a table reads back from JSON and from CSV, every bit of it") {
  const ScoreTable table = small_table();
  CHECK(ScoreTable::from_json(table.to_json(), "it") == table);
  CHECK(ScoreTable::from_csv(table.to_csv(), "it") == table);
  const TemporaryFolder folder;
  for (const char* name : {"t.json", "t.csv"}) {
    write_score_table(table, folder / name);
    CHECK(read_score_table(folder / name) == table);
  }
  std::string windows;
  for (const char c : ScoreTable("m", "", {"a"}, {"b"}, {1}).to_csv())
    windows += c == '\n' ? "\r\n" : std::string(1, c);
  CHECK(ScoreTable::from_csv(windows, "it") == ScoreTable("m", "", {"a"}, {"b"}, {1}));
}

TEST_CASE("cells stand by task, method, seed") {
  const ScoreTable table = small_table();
  CHECK(table.scores.size() == 12);
  CHECK(table.scores[5] == 1.0 / 3);
  CHECK(!table.at(0, 0, 1));
}

TEST_CASE("labels and seeds must differ, and there must be some") {
  const auto error = [](std::vector<std::string> tasks, std::vector<std::string> methods,
                        std::vector<std::uint64_t> seeds) {
    return message_of<UserError>([&] { ScoreTable("m", "", tasks, methods, seeds); });
  };
  CHECK(mentions(error({"a", "b", "a"}, {"x"}, {1}), "task 'a' is there twice"));
  CHECK(mentions(error({"a"}, {"x", "x"}, {1}), "method 'x' is there twice"));
  CHECK(mentions(error({"a"}, {"x"}, {1, 2, 1}), "seed 1 is there twice"));
  CHECK(mentions(error({}, {"x"}, {1}), "at least one task"));
  CHECK(mentions(error({"a"}, {}, {1}), "at least one method"));
  CHECK(mentions(error({"a"}, {"x"}, {}), "at least one seed"));
  CHECK(mentions(error({"a"}, {""}, {1}), "is empty"));
  std::vector<std::uint64_t> seeds(1001);
  std::vector<std::string> tasks(1000);
  for (std::size_t i = 0; i < seeds.size(); ++i) seeds[i] = i;
  for (std::size_t i = 0; i < tasks.size(); ++i) tasks[i] = std::to_string(i);
  CHECK(mentions(error(tasks, {"x"}, seeds), "at most 1000000 cells"));
}

TEST_CASE("JSON of another layout is refused") {
  const std::string begin = "{\"metric\":\"m\",\"units\":\"\",\"tasks\":[\"a\"],\"methods\":[\"x\"],\"seeds\":";
  CHECK(json_error(begin + "[1],\"scores\":[[[1]]]}") == "nothing was thrown");
  CHECK(mentions(json_error("[]"), "not a JSON object"));
  CHECK(mentions(json_error(std::string(100'000, '[')), "not a JSON object"));
  CHECK(mentions(json_error(begin + "[1]}"), "'scores' is not a list"));
  CHECK(mentions(json_error(begin + "[-1],\"scores\":[[[1]]]}"), "'seeds'"));
  CHECK(mentions(json_error(begin + "[1,1],\"scores\":[[[1,1]]]}"), "seed 1 is there twice"));
  for (const char* scores : {"[[1]]", "[[[1,2]]]", "[[[]]]", "[]", "[[[1]],[[1]]]"})
    CHECK(mentions(json_error(begin + "[1],\"scores\":" + scores + "}"), "one number for each"));
  for (const char* score : {"\"1\"", "true", "{}"})
    CHECK(mentions(json_error(begin + "[1],\"scores\":[[[" + score + "]]]}"), "neither a number nor null"));
  CHECK(mentions(json_error(begin + "[1],\"scores\":[[[1e999]]]}"), "not a JSON object"));
}

TEST_CASE("CSV of another layout is refused") {
  CHECK(csv_error("m,,a,x,1,0.5\n") == "nothing was thrown");
  CHECK(csv_error("m,,a,x,1,0.5") == "nothing was thrown");
  CHECK(mentions(csv_error(""), "at least one task"));
  CHECK(mentions(csv_error("m,,a,x,1\n"), "record 2 has 5 fields"));
  CHECK(mentions(csv_error("m,,a,x,1,0.5\nn,,a,x,2,0.5\n"), "record 3 is of another metric"));
  CHECK(mentions(csv_error("m,,a,x,1,0.5\nm,,a,x,1,0.5\n"), "seed 1 twice"));
  CHECK(mentions(csv_error("m,,a,x,1,0.5\nm,,a,y,2,0.5\n"), "2 of the 4 cells"));
  for (const char* score : {"nan", "inf", "1e999", "0.5x", " 1"})
    CHECK(mentions(csv_error(std::string("m,,a,x,1,") + score + "\n"), "has the score"));
  for (const char* seed : {"-1", "1.5", "", "18446744073709551616"})
    CHECK(mentions(csv_error(std::string("m,,a,x,") + seed + ",1\n"), "has the seed"));
  CHECK(mentions(csv_error("m,,\"a,x,1,1\n"), "inside a quoted field"));
  CHECK(mentions(csv_error("m,,\"a\"b,x,1,1\n"), "quote out of place"));
  CHECK(mentions(csv_error("m,,a\"b,x,1,1\n"), "quote out of place"));
  CHECK(mentions(message_of<UserError>([] { ScoreTable::from_csv("task\n", "it"); }), "does not begin with"));
}

TEST_CASE("files: the ending says which, and what is none is refused") {
  const TemporaryFolder folder;
  CHECK(mentions(message_of<UserError>([&] { read_score_table(folder / "t.txt"); }), ".json or a .csv"));
  CHECK(mentions(message_of<UserError>([&] { write_score_table(small_table(), folder / "t"); }), ".json or a .csv"));
  CHECK(mentions(message_of<UserError>([&] { read_score_table(folder / "none.csv"); }), "is not a file"));
}
