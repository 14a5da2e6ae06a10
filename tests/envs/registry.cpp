#include "envs/registry.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text/suggest.h"
#include "envs/tasks/memory_rl/visual_match.h"
#include "envs/vec/vec_env.h"

using namespace engram;

TEST_CASE("every task can be made by name, listed, and set option by option") {
  CHECK(task_names() == std::vector<std::string>{"visual_match",   "key_to_door",      "tmaze",
                                                 "repeat_first",   "repeat_previous",  "autoencode",
                                                 "count_recall",   "concentration",    "multiarmed_bandit",
                                                 "higher_lower",   "minesweeper",      "battleship",
                                                 "memory_chain",   "umbrella_chain",   "minigrid_memory",
                                                 "red_blue_doors", "door_key",         "cartpole",
                                                 "dark_room",      "dark_key_to_door", "memory_maze",
                                                 "endless_tmaze",  "labyrinth_escape", "labyrinth_explore",
                                                 "mortar_mayhem",  "mystery_path",     "pendulum"});
  for (const std::string& name : task_names()) {
    TaskConfig config(name);
    CHECK(config.name() == name);
    config.check();
    TaskConfig copy(name);
    const OptionList options = config.options();
    CHECK_FALSE(options.options().empty());
    for (const Option& option : options.options()) {
      CHECK(option.name.starts_with("task."));
      CHECK_FALSE(option.help.empty());
      CHECK_FALSE(option.help.ends_with("."));
      OptionList copied = copy.options();
      copied.set(option.name, option.get());
    }
    const TaskInfo info = config.info();
    CHECK(info.name == name);
    CHECK_FALSE(info.description.empty());
    CHECK(info.memory_demand.size() <= 25);  // a row of `engram list` has 80 columns
    CHECK((info.action.continuous() ? info.action.names.empty() : info.num_actions() >= 2));
    for (const ActionNumber& number : info.action.numbers) CHECK(number.least < number.most);
    CHECK(info.max_episode_steps > 0);
    CHECK(info.observation.bytes() > 0);
  }
  for (const char* name : {"visual_match", "key_to_door", "tmaze"}) {
    const bool maze = std::string(name) == "tmaze";
    const TaskInfo info = TaskConfig(name).info();
    CHECK(info.num_actions() == 4);
    CHECK(info.observation.shape() == (maze ? std::vector<std::int64_t>{2} : std::vector<std::int64_t>{3, 5, 5}));
    CHECK(info.observation.bytes() == (maze ? 8 : 75));
  }
  CHECK(*TaskConfig("visual_match").info().chance_success == doctest::Approx(1.0 / 3));
  CHECK(*TaskConfig("tmaze").info().chance_success == 0.5);
  CHECK_FALSE(TaskConfig("key_to_door").info().chance_success.has_value());
}

TEST_CASE("what a seed decides for a run is said by the task that draws it, and nothing by others") {
  for (const std::string& name : task_names()) CHECK(TaskConfig(name).run_facts(5).empty());
  TaskConfig config("visual_match");
  OptionList options = config.options();
  options.set("task.colours", "fixed");
  REQUIRE(config.run_facts(5).size() == 1);
  CHECK(config.run_facts(5)[0].name == "colours");
  options.set("task.colours", "reference");
  CHECK(config.run_facts(5).size() == 3);
}

TEST_CASE("options of a config are those of its own task, and a copy has its own") {
  TaskConfig config("visual_match");
  OptionList options = config.options();
  options.set("task.distractor_steps", "5");
  options.set("task.colours", "fixed");
  CHECK(config.info().max_episode_steps == 35);
  TaskConfig copy = config;
  OptionList copied = copy.options();
  copied.set("task.distractor_steps", "6");
  CHECK(copy.info().max_episode_steps == 36);
  CHECK(config.info().max_episode_steps == 35);
  CHECK_THROWS_WITH_AS(options.set("task.corridor_length", "3"), "unknown key 'task.corridor_length'", UserError);
  CHECK_THROWS_WITH_AS(options.set("task.colours", "random"),
                       "task.colours = 'random' is not allowed; it takes episode | fixed | reference", UserError);
}

TEST_CASE("every preset is valid, named once and has the published size") {
  std::set<std::string> names;
  for (const TaskPreset& preset : task_presets()) {
    const TaskConfig config = TaskConfig::from_preset(preset.name);
    config.check();
    CHECK(config.name() == preset.task);
    CHECK_FALSE(preset.source.empty());
    CHECK(names.insert(preset.name).second);
    CHECK(make_cpu_vec_env(config, 1, Purpose::kTraining, 2, 1)->size() == 2);
  }
  const auto steps = [](const std::string& preset) { return TaskConfig::from_preset(preset).info().max_episode_steps; };
  CHECK(steps("visual_match_hqlt") == 780);
  CHECK(steps("visual_match_60") == 90);
  CHECK(steps("visual_match_1000") == 1030);
  CHECK(steps("key_to_door_250") == 275);
  CHECK(steps("tmaze_passive_50") == 51);
  CHECK(steps("tmaze_active_20") == 23);
  CHECK(steps("repeat_first_easy") == 51);
  CHECK(steps("repeat_first_medium") == 415);
  CHECK(steps("repeat_first_hard") == 831);
  CHECK(steps("repeat_previous_easy") == 51);
  CHECK(steps("repeat_previous_medium") == 103);
  CHECK(steps("repeat_previous_hard") == 155);
  CHECK(steps("autoencode_easy") == 103);
  CHECK(steps("autoencode_medium") == 207);
  CHECK(steps("autoencode_hard") == 311);
  CHECK(steps("count_recall_easy") == 51);
  CHECK(steps("count_recall_medium") == 103);
  CHECK(steps("count_recall_hard") == 207);
  CHECK(steps("concentration_easy") == 104);
  CHECK(steps("concentration_medium") == 208);
  CHECK(steps("concentration_hard") == 104);
  CHECK(steps("multiarmed_bandit_easy") == 200);
  CHECK(steps("multiarmed_bandit_medium") == 400);
  CHECK(steps("multiarmed_bandit_hard") == 600);
  CHECK(steps("higher_lower_easy") == 51);
  CHECK(steps("higher_lower_medium") == 103);
  CHECK(steps("higher_lower_hard") == 155);
  CHECK(steps("minesweeper_easy") == 14);
  CHECK(steps("minesweeper_medium") == 30);
  CHECK(steps("minesweeper_hard") == 54);
  CHECK(steps("battleship_easy") == 64);
  CHECK(steps("battleship_medium") == 100);
  CHECK(steps("battleship_hard") == 144);
  CHECK(steps("memory_len_1") == 2);
  CHECK(steps("memory_len_100") == 101);
  CHECK(steps("memory_size_40") == 3);
  CHECK(TaskConfig::from_preset("memory_size_40").info().observation.shape() == std::vector<std::int64_t>{42});
  CHECK(steps("umbrella_length_100") == 100);
  CHECK(TaskConfig::from_preset("umbrella_length_1").info().observation.shape() == std::vector<std::int64_t>{23});
  CHECK(steps("minigrid_memory_s7") == 245);
  CHECK(steps("minigrid_memory_s9") == 405);
  CHECK(steps("minigrid_memory_s11") == 605);
  CHECK(steps("minigrid_memory_s13") == 845);
  CHECK(steps("minigrid_memory_s13_random") == 845);
  CHECK(steps("minigrid_memory_s17_random") == 1445);
  CHECK(steps("red_blue_doors_6") == 720);
  CHECK(steps("red_blue_doors_8") == 1280);
  CHECK(steps("door_key_5") == 250);
  CHECK(steps("door_key_6") == 360);
  CHECK(steps("door_key_8") == 640);
  CHECK(steps("door_key_16") == 2560);
  CHECK(steps("position_only_cartpole_easy") == 200);
  CHECK(steps("velocity_only_cartpole_medium") == 400);
  CHECK(steps("velocity_only_cartpole_hard") == 600);
  CHECK(steps("noisy_position_only_cartpole_hard") == 200);
  CHECK(steps("dark_room_9") == 210);
  CHECK(steps("dark_room_hard_17") == 210);
  CHECK(steps("dark_key_to_door_8") == 500);
  CHECK(steps("dark_key_to_door_9") == 500);
  CHECK(steps("memory_maze_9x9") == 1000);
  CHECK(steps("memory_maze_11x11") == 2000);
  CHECK(steps("memory_maze_13x13") == 3000);
  CHECK(steps("memory_maze_15x15") == 4000);
  const auto actions = [](const std::string& preset) { return TaskConfig::from_preset(preset).info().num_actions(); };
  CHECK(actions("count_recall_easy") == 27);
  CHECK(actions("count_recall_medium") == 27);
  CHECK(actions("count_recall_hard") == 17);
  CHECK(TaskConfig::from_preset("count_recall_hard").info().action.names.back() == "16");
  for (const std::string size : {"easy", "medium", "hard"}) {
    CHECK(actions("concentration_" + size) == (size == "medium" ? 104 : 52));
    CHECK(actions("multiarmed_bandit_" + size) == (size == "easy" ? 10 : size == "medium" ? 20 : 30));
    CHECK(actions("minesweeper_" + size) == (size == "easy" ? 16 : size == "medium" ? 36 : 64));
    CHECK(actions("battleship_" + size) == steps("battleship_" + size));
  }
  const TaskConfig paper = TaskConfig::from_preset("visual_match_hqlt");
  const auto& options = *paper.as<VisualMatch::Options>();
  CHECK(options.final_reward == 100);
  CHECK(options.apple_reward == 1);
  CHECK(options.respawn_every == 20);
  CHECK_FALSE(options.active);
}

TEST_CASE("a task of a name that there is already is not added") {
  const std::size_t tasks = task_names().size(), presets = task_presets().size();
  CHECK_THROWS_WITH_AS(add_task(task_entry<VisualMatch>()), "there is a task 'visual_match' already", UserError);
  TaskEntry other = task_entry<VisualMatch>();
  other.name = "other";
  CHECK_THROWS_WITH_AS(add_task(other),
                       "task 'other' has a preset 'visual_match_hqlt'; task 'visual_match' has it already", UserError);
  CHECK(task_names().size() == tasks);
  CHECK(task_presets().size() == presets);
}

TEST_CASE("an unknown task or preset is refused with the nearest ones, or with some of all") {
  CHECK_THROWS_WITH_AS(TaskConfig("visual_macth"), "unknown task 'visual_macth'; did you mean 'visual_match'?",
                       UserError);
  CHECK_THROWS_WITH_AS(TaskConfig("chess"),
                       ("unknown task 'chess'; there are " + listed(task_names()) + "; engram list shows them").c_str(),
                       UserError);
  CHECK_THROWS_WITH_AS(
      TaskConfig::from_preset("tmaze_passive_51"),
      "unknown preset 'tmaze_passive_51'; did you mean 'tmaze_passive_50', 'tmaze_passive_250' or 'tmaze_passive_500'?",
      UserError);
  CHECK_THROWS_WITH_AS(TaskConfig::from_preset("tmaze_50"),
                       "unknown preset 'tmaze_50'; did you mean 'tmaze_passive_50' or 'tmaze_active_50'?", UserError);
}
