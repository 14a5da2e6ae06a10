// What the grid tasks of Memory Gym share: an agent that turns and walks. Source: Pleines, Pallasch, Zimmer and Preuss,
// "Memory Gym: Partially observable challenges to memory-based agents", ICLR 2023, and "Memory Gym: Towards endless
// tasks to benchmark memory capabilities of agents", 2024, in the form of the package memory-gym 1.0.3
// (character_controller.py).
//
// Cells are counted from 0: x to the right, y down.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/host_device.h"
#include "envs/task.h"

namespace engram::memory_gym {

inline constexpr const char* kSource =
    "Pleines et al., Memory Gym: Partially observable challenges to memory-based agents, ICLR 2023 (memory-gym 1.0.3)";

inline constexpr int kNumActions = 4;
enum Action : int { kStay, kTurnLeft, kTurnRight, kForward };
inline constexpr const char* kActionNames[] = {"stay", "left", "right", "forward"};

// Numbered as the original does, counterclockwise.
inline constexpr int kDirections = 4;
enum Direction : std::uint8_t { kUp, kLeft, kDown, kRight };

struct Cell {
  std::uint8_t x, y;
  friend constexpr bool operator==(const Cell&, const Cell&) = default;
};

struct Agent {
  Cell at;
  std::uint8_t facing;  // a Direction
};

HOST_DEVICE constexpr int step_x(int direction) { return (direction == kRight) - (direction == kLeft); }
HOST_DEVICE constexpr int step_y(int direction) { return (direction == kDown) - (direction == kUp); }

// The cell that lies (by_x, by_y) from `from`, which is on the board, and no further than one size of it: what leaves
// the board comes in again at its other side.
HOST_DEVICE constexpr Cell wrapped(Cell from, int by_x, int by_y, int columns, int rows) {
  return {static_cast<std::uint8_t>((from.x + by_x + columns) % columns),
          static_cast<std::uint8_t>((from.y + by_y + rows) % rows)};
}

HOST_DEVICE constexpr void turn(Agent& agent, int action) {
  agent.facing = static_cast<std::uint8_t>((agent.facing + (action == kTurnLeft) + 3 * (action == kTurnRight)) % 4);
}
// An action of the agent on a board of columns x rows, at whose border it stays where it is.
HOST_DEVICE constexpr void act(Agent& agent, int action, int columns, int rows) {
  turn(agent, action);
  if (action != kForward) return;
  const int x = agent.at.x + step_x(agent.facing), y = agent.at.y + step_y(agent.facing);
  if (x >= 0 && x < columns && y >= 0 && y < rows)
    agent.at = {static_cast<std::uint8_t>(x), static_cast<std::uint8_t>(y)};
}
// The same on a board whose opposite borders are joined.
HOST_DEVICE constexpr void act_wrapped(Agent& agent, int action, int columns, int rows) {
  turn(agent, action);
  if (action == kForward) agent.at = wrapped(agent.at, step_x(agent.facing), step_y(agent.facing), columns, rows);
}

// ---- For people.

// As the arrow of a canvas.
inline Canvas::Arrow arrow_of(const Agent& agent) {
  return {agent.at.y, agent.at.x, static_cast<Facing>(3 - agent.facing)};
}
// One-hot codes of a place on a board and of a direction.
VectorPart place_part(const std::string& name, int count);
VectorPart direction_part(const std::string& name);

}  // namespace engram::memory_gym
