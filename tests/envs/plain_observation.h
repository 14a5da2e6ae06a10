// What an agent sees, the plain way: the drawn board around the player, floor beyond it. The oracle for the fast crops.
#pragma once

#include <cstdint>
#include <vector>

#include "envs/tasks/memory_rl/board.h"

namespace engram {

template <class Task>
std::vector<std::uint8_t> plain_observation(const typename Task::Params& params, const typename Task::State& state) {
  Canvas canvas;
  Task::draw(params, state, canvas);
  std::vector<std::uint8_t> observation(board::kObservationBytes);
  for (int i = 0; i < board::kCrop; ++i)
    for (int j = 0; j < board::kCrop; ++j) {
      const int row = state.board.player.row + i - 2;
      const int column = state.board.player.column + j - 2;
      const bool inside = row >= 0 && row < board::kRows && column >= 0 && column < board::kColumns;
      const Rgb colour = inside ? canvas.at(row, column) : params.board.palette.floor;
      observation[i * 5 + j] = colour.red;
      observation[25 + i * 5 + j] = colour.green;
      observation[50 + i * 5 + j] = colour.blue;
    }
  return observation;
}

template <class Task>
std::vector<typename Task::Element> fast_observation(const typename Task::Params& params,
                                                     const typename Task::State& state) {
  // Canaries around the observation: nothing else may be written.
  constexpr typename Task::Element kCanary = 77;
  std::vector<typename Task::Element> padded(board::kObservationBytes + 32, kCanary);
  Task::observe(params, state, padded.data() + 16);
  for (int i = 0; i < 16; ++i)
    if (padded[i] != kCanary || padded[padded.size() - 1 - i] != kCanary) return {};
  return {padded.begin() + 16, padded.end() - 16};
}

}  // namespace engram
