// Draws docs/tasks.png: a moment of every task.
//   cmake --build build/release --target tasks_picture && build/release/tasks_picture docs/tasks.png
#include <cstdio>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "envs/vec/vec_env.h"
#include "video/film.h"
#include "video/film_strip.h"
#include "video/png.h"

namespace engram {
namespace {

struct Scene {
  std::string task;
  std::vector<std::pair<std::string, std::string>> options;
  std::vector<int> actions;  // taken one after the other; random once they are used up
  int step;                  // the moment shown
};

constexpr int kColumns = 3;
const std::vector<Scene> kScenes = {
    {"visual_match", {{"explore_steps", "5"}, {"distractor_steps", "30"}, {"reward_steps", "15"}}, {}, 0},
    {"key_to_door", {{"explore_steps", "15"}, {"distractor_steps", "30"}}, {}, 30},
    {"tmaze", {{"corridor_length", "10"}}, {}, 0},
    {"endless_tmaze", {}, {}, 0},
    {"minigrid_memory", {}, {2, 2}, 2},
    {"door_key", {{"size", "8"}}, {}, 30},
    {"red_blue_doors", {}, {}, 40},
    {"memory_maze", {}, {1}, 1},
    {"dark_room", {}, {}, 8},
    {"dark_key_to_door", {}, {}, 20},
    {"concentration", {{"kind", "ranks"}}, {}, 60},
    {"higher_lower", {}, {}, 20},
    {"multiarmed_bandit", {}, {}, 30},
    {"minesweeper", {{"size", "6"}, {"mines", "6"}}, {}, 4},
    {"battleship", {}, {}, 25},
    {"labyrinth_escape", {}, {}, 30},
    {"labyrinth_explore", {}, {}, 30},
    {"mortar_mayhem", {}, {}, 4},
    {"mystery_path", {}, {}, 20},
    {"cartpole", {}, {}, 10},
    {"pendulum", {}, {}, 30},
    {"repeat_first", {}, {}, 5},
    {"repeat_previous", {}, {}, 8},
    {"autoencode", {}, {}, 5},
    {"count_recall", {{"kind", "suits"}}, {}, 9},
    {"memory_chain", {{"bits", "5"}}, {}, 0},
    {"umbrella_chain", {{"distractors", "8"}}, {1}, 3},
};

FilmStripRow play(const Scene& scene) {
  TaskConfig task(scene.task);
  OptionList options = task.options();
  for (const auto& [key, value] : scene.options) options.set("task." + key, value);
  const auto environment = make_cpu_vec_env(task, 4, Purpose::kTest, 1, 1);
  environment->reset_all();

  FilmStripRow row{scene.task, environment->info().observation, {}};
  const Decide random = random_policy(1);
  std::size_t next = 0;
  const Decide decide = [&](const VecEnv& current) {
    Decision decision = random(current);
    if (next < scene.actions.size()) decision.action = scene.actions[next++];
    return decision;
  };
  film_episode(
      task, *environment, decide, 1, 1,
      [&](const FrameContents& contents) {
        if (contents.step == scene.step) row.moments.push_back(contents);
      },
      scene.step);
  return row;
}

void write_picture(const std::string& file) {
  if (kScenes.size() != task_names().size()) throw std::logic_error("a scene a task");
  std::vector<FilmStripRow> rows;
  for (const Scene& scene : kScenes) rows.push_back(play(scene));
  std::ofstream stream(file, std::ios::binary);
  stream << encode_png(film_grid(rows, kColumns));
  if (!stream.flush()) throw std::runtime_error("cannot write " + file);
}

}  // namespace
}  // namespace engram

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: tasks_picture FILE.png\n");
    return 2;
  }
  try {
    engram::write_picture(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tasks_picture: %s\n", error.what());
    return 1;
  }
}
