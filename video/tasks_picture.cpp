// Draws docs/tasks.png: key moments of the tasks, for README.md.
//   cmake --build build/release --target tasks_picture && build/release/tasks_picture docs/tasks.png
#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "envs/vec_env.h"
#include "video/film.h"
#include "video/film_strip.h"
#include "video/png.h"

namespace engram {
namespace {

struct Scene {
  std::string title;
  std::string task;
  std::vector<std::pair<std::string, std::string>> options;
  std::vector<int> actions;  // taken one after the other; random once they are used up
  std::vector<int> steps;    // the moments shown
};

const std::vector<Scene> kScenes = {
    {"Visual match: remember the colour, collect apples, step on the square of that colour",
     "visual_match",
     {{"explore_steps", "5"}, {"distractor_steps", "30"}, {"reward_steps", "15"}},
     {},
     {0, 20, 35}},
    {"Key-to-door: take the key, collect apples, open the door with it",
     "key_to_door",
     {{"explore_steps", "15"}, {"distractor_steps", "30"}},
     {},
     {0, 30, 45}},
    {"T-maze: remember the sign at the start, turn accordingly at the end",
     "tmaze",
     {{"corridor_length", "10"}},
     std::vector<int>(10, 0),
     {0, 5, 10}},
};

FilmStripRow play(const Scene& scene) {
  TaskConfig task(scene.task);
  OptionList options = task.options();
  for (const auto& [key, value] : scene.options) options.set("task." + key, value);
  const auto environment = make_cpu_vec_env(task, 4, Purpose::kTest, 1, 1);
  environment->reset_all();

  FilmStripRow row{scene.title, environment->info().observation, {}};
  const Decide random = random_policy(1);
  std::size_t next = 0;
  const Decide decide = [&](const VecEnv& current) {
    Decision decision = random(current);
    if (next < scene.actions.size()) decision.action = scene.actions[next++];
    return decision;
  };
  film_episode(task, *environment, decide, 1, 1, [&](const FrameContents& contents) {
    if (std::ranges::find(scene.steps, contents.step) != scene.steps.end()) row.moments.push_back(contents);
  });
  return row;
}

void write_picture(const std::string& file) {
  std::vector<FilmStripRow> rows;
  for (const Scene& scene : kScenes) rows.push_back(play(scene));
  std::ofstream stream(file, std::ios::binary);
  stream << encode_png(film_strip(rows));
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
