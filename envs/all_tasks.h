// The list of all tasks.
// To add one: include its header, add it to AllTasks, and name its files in envs/CMakeLists.txt.
#pragma once

#include "base/type_list.h"
#include "envs/tasks/bsuite/memory_chain.h"
#include "envs/tasks/bsuite/umbrella_chain.h"
#include "envs/tasks/dark_rooms/dark_key_to_door.h"
#include "envs/tasks/dark_rooms/dark_room.h"
#include "envs/tasks/endless_tmaze.h"
#include "envs/tasks/memory_gym/mortar_mayhem.h"
#include "envs/tasks/memory_gym/mystery_path.h"
#include "envs/tasks/memory_maze.h"
#include "envs/tasks/memory_rl/key_to_door.h"
#include "envs/tasks/memory_rl/tmaze.h"
#include "envs/tasks/memory_rl/visual_match.h"
#include "envs/tasks/minigrid/door_key.h"
#include "envs/tasks/minigrid/minigrid_memory.h"
#include "envs/tasks/minigrid/red_blue_doors.h"
#include "envs/tasks/popgym/autoencode.h"
#include "envs/tasks/popgym/battleship.h"
#include "envs/tasks/popgym/cartpole.h"
#include "envs/tasks/popgym/concentration.h"
#include "envs/tasks/popgym/count_recall.h"
#include "envs/tasks/popgym/higher_lower.h"
#include "envs/tasks/popgym/labyrinth_escape.h"
#include "envs/tasks/popgym/labyrinth_explore.h"
#include "envs/tasks/popgym/minesweeper.h"
#include "envs/tasks/popgym/multiarmed_bandit.h"
#include "envs/tasks/popgym/pendulum.h"
#include "envs/tasks/popgym/repeat_first.h"
#include "envs/tasks/popgym/repeat_previous.h"

namespace engram {

using AllTasks = TypeList<VisualMatch, KeyToDoor, TMaze, RepeatFirst, RepeatPrevious, Autoencode, CountRecall,
                          Concentration, MultiarmedBandit, HigherLower, Minesweeper, Battleship, MemoryChain,
                          UmbrellaChain, MiniGridMemory, RedBlueDoors, DoorKey, CartPole, DarkRoom, DarkKeyToDoor,
                          MemoryMaze, EndlessTMaze, LabyrinthEscape, LabyrinthExplore, MortarMayhem, MysteryPath,
                          Pendulum>;

}  // namespace engram
