#include "envs/shown_observation.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "envs/vec/vec_env.h"

using namespace engram;

namespace {

using Lines = std::vector<std::string>;

TaskConfig with(const std::string& name, const std::vector<std::pair<std::string, std::string>>& values) {
  TaskConfig task(name);
  OptionList options = task.options();
  for (const auto& [key, value] : values) options.set("task." + key, value);
  return task;
}

Lines lines_of(const TaskConfig& task, const std::vector<float>& elements) {
  return show_observation(task, std::as_bytes(std::span(elements))).lines;
}

}  // namespace

TEST_CASE("the parts of a vector are all of it, whatever the options, and every observation can be shown") {
  for (const std::string& name : task_names())
    for (const char* const full_state : {"false", "true"}) {
      CAPTURE(name);
      CAPTURE(full_state);
      const TaskConfig task = with(name, {{"full_state", full_state}});
      const std::vector<VectorPart> parts = task.any().vector_parts();
      std::int64_t elements = 0;
      for (const VectorPart& part : parts) {
        elements += part.size;
        CHECK((part.values.empty() || part.values.size() == static_cast<std::size_t>(part.size)));
      }
      if (!parts.empty()) CHECK(elements == task.info().observation.elements());
      const auto env = make_cpu_vec_env(task, 1, Purpose::kTest, 1, 1);
      for (int step = 0; step < 30; ++step) {
        const ShownObservation shown = show_observation(task, env->observation_N());
        CHECK((shown.picture.has_value() || !shown.lines.empty()));
        env->step_row(0, env->info().action.continuous() ? word_of(step % 3 - 1.0f) : step % env->info().num_actions());
        env->reset_finished();
      }
    }
  for (const TaskPreset& preset : task_presets()) {
    const TaskConfig task = TaskConfig::from_preset(preset.name);
    const auto env = make_cpu_vec_env(task, 1, Purpose::kTest, 1, 1);
    CHECK_NOTHROW(show_observation(task, env->observation_N()));
  }
}

TEST_CASE("one-hot codes are read out, numbers are labelled") {
  CHECK(lines_of(TaskConfig("repeat_previous"), {0, 0, 1, 0}) == Lines{"card: clubs"});
  CHECK(lines_of(TaskConfig("autoencode"), {0, 1, 0, 0, 0, 1}) == Lines{"mode: watch", "card: hearts"});
  CHECK(lines_of(TaskConfig("autoencode"), {1, 0, 0, 0, 0, 0}) == Lines{"mode: play", "card: none"});
  CHECK(lines_of(with("count_recall", {{"kind", "ranks"}}),
                 {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}) ==
        Lines{"dealt: ace", "how many so far of: king"});
  CHECK(lines_of(with("memory_chain", {{"bits", "3"}}), {0.5, 0, 1, -1, 1}) ==
        Lines{"share of time left: 0.5", "bit asked for, from 0: 0", "bits: 1 -1 1"});
  CHECK(lines_of(TaskConfig("tmaze"), {1, -1}) ==
        Lines{"at the junction (1) or not (0): 1", "the sign, or the side at the junction (y): -1"});
  CHECK(lines_of(TaskConfig("repeat_first"), {0, 1, 1, 0}) == Lines{"card: 0 1 1 0"});  // no code
}

TEST_CASE("every task's vector is told by its parts, but for that of concentration, which is a picture") {
  for (const std::string& name : task_names()) {
    CAPTURE(name);
    const TaskConfig task(name);
    if (!task.info().observation.is_vector()) continue;
    CHECK((task.any().vector_parts().empty()) == (name == "concentration"));
  }
  std::vector<float> cards(52 * 3);
  for (int card = 0; card < 52; ++card) cards[static_cast<std::size_t>(3 * card + (card == 14 ? 1 : 2))] = 1;
  const ShownObservation shown = show_observation(TaskConfig("concentration"), std::as_bytes(std::span(cards)));
  REQUIRE(shown.picture);
  CHECK(shown.picture->at(1, 1) == Rgb{210, 0, 0});
  CHECK(shown.picture->at(0, 1) == Rgb{150, 160, 175});
  CHECK(lines_of(TaskConfig("minesweeper"), {0, 1, 0}) == Lines{"mines at and around the field: 1"});
  CHECK(lines_of(TaskConfig("dark_room"), {0.5, 0, 1, 0.25}) == Lines{"row and column, as shares of the size: 0.5 0",
                                                                      "goal reached in this attempt (1) or not (0): 1",
                                                                      "share of the attempt's time: 0.25"});
}

TEST_CASE("an image is a cell a pixel") {
  const TaskConfig task("visual_match");
  std::vector<std::uint8_t> image(75, 7);
  image[5 + 2] = 1;
  image[25 + 5 + 2] = 2;
  image[50 + 5 + 2] = 3;
  const ShownObservation shown = show_observation(task, std::as_bytes(std::span(image)));
  REQUIRE(shown.picture);
  CHECK(shown.picture->rows() == 5);
  CHECK(shown.picture->columns() == 5);
  CHECK(shown.picture->at(1, 2) == Rgb{1, 2, 3});
  CHECK(shown.picture->at(2, 1) == Rgb{7, 7, 7});
  CHECK(shown.lines.empty());
  CHECK_THROWS_AS(show_observation(task, std::as_bytes(std::span(image).first(74))), std::invalid_argument);
}

TEST_CASE("of several parts the first image is shown, and numbers where there is none") {
  std::vector<std::byte> bytes(2 + 12, std::byte{3});
  bytes[2] = std::byte{120};
  ObservationSpec spec{ElementType::kUint8,
                       {{"levels", PartKind::kTokens, {2}, 9}, {"image", PartKind::kImage, {3, 2, 2}}}};
  const ShownObservation shown = show_plainly(spec, {}, bytes);
  REQUIRE(shown.picture);
  CHECK(shown.picture->at(0, 0) == Rgb{120, 3, 3});
  CHECK(shown.picture->at(0, 1) == Rgb{3, 3, 3});
  // A channel too few for a picture.
  spec.parts[1].shape = {2, 2, 3};
  CHECK_FALSE(first_image(spec, bytes));
  CHECK(show_plainly(spec, {}, bytes).lines.size() == 1);
}

TEST_CASE("MiniGrid's codes are told in words, however bytes stand for them") {
  for (const auto& [codes, object, colour, state] :
       {std::tuple{"original", 1, 1, 1}, std::tuple{"spread", 25, 51, 85}, std::tuple{"tokens", 1, 1, 1}}) {
    std::vector<std::uint8_t> image(3 * 49, 0);
    const auto put = [&](int cell, int of_object, int of_colour, int of_state) {
      image[static_cast<std::size_t>(cell)] = static_cast<std::uint8_t>(of_object * object);
      image[static_cast<std::size_t>(49 + cell)] = static_cast<std::uint8_t>(of_colour * colour);
      image[static_cast<std::size_t>(98 + cell)] = static_cast<std::uint8_t>(of_state * state);
    };
    put(0, 2, 5, 0);
    put(1, 6, 1, 0);
    put(2, 4, 4, 2);
    put(45, 5, 4, 0);
    const ShownObservation shown =
        show_observation(with("door_key", {{"codes", codes}}), std::as_bytes(std::span(image)));
    CHECK(shown.lines == Lines{"in sight: green ball, locked yellow door", "in hand: yellow key, facing up"});
    REQUIRE(shown.picture);
    CHECK(shown.picture->at(0, 0) == Rgb{25, 25, 25});
    CHECK(shown.picture->at(6, 3) == Rgb{228, 148, 109});
    CHECK_FALSE(shown.picture->at(0, 1) == shown.picture->at(0, 2));
    image.push_back(2);
    const ShownObservation directed =
        show_observation(with("door_key", {{"codes", codes}, {"direction", "true"}}), std::as_bytes(std::span(image)));
    REQUIRE(directed.lines.size() == 3);
    CHECK(directed.lines[2] == "direction in the maze: left");
  }
}
