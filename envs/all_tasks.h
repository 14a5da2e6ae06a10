// The list of all tasks.
// To add one: include its header, add it to AllTasks, and name its files in envs/CMakeLists.txt.
#pragma once

#include "base/type_list.h"
#include "envs/tasks/autoencode.h"
#include "envs/tasks/battleship.h"
#include "envs/tasks/cartpole.h"
#include "envs/tasks/concentration.h"
#include "envs/tasks/count_recall.h"
#include "envs/tasks/dark_key_to_door.h"
#include "envs/tasks/dark_room.h"
#include "envs/tasks/door_key.h"
#include "envs/tasks/higher_lower.h"
#include "envs/tasks/key_to_door.h"
#include "envs/tasks/memory_chain.h"
#include "envs/tasks/memory_maze.h"
#include "envs/tasks/minesweeper.h"
#include "envs/tasks/minigrid_memory.h"
#include "envs/tasks/multiarmed_bandit.h"
#include "envs/tasks/red_blue_doors.h"
#include "envs/tasks/repeat_first.h"
#include "envs/tasks/repeat_previous.h"
#include "envs/tasks/tmaze.h"
#include "envs/tasks/umbrella_chain.h"
#include "envs/tasks/visual_match.h"

namespace engram {

using AllTasks =
    TypeList<VisualMatch, KeyToDoor, TMaze, RepeatFirst, RepeatPrevious, Autoencode, CountRecall, Concentration,
             MultiarmedBandit, HigherLower, Minesweeper, Battleship, MemoryChain, UmbrellaChain, MiniGridMemory,
             RedBlueDoors, DoorKey, CartPole, DarkRoom, DarkKeyToDoor, MemoryMaze>;

}  // namespace engram
