// What visual match and key-to-door share: a board of 7 x 11 cells, three phases with a map each, a player that walks,
// apples that are taken and come back, and the 5 x 5 crop around the player that the agent sees.
// Rules as in the public implementations (pycolab's visual match and key-to-door, as Memory-RL configures them).
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/host_device.h"
#include "base/rng.h"
#include "envs/task.h"

namespace engram::board {

inline constexpr int kRows = 7;
inline constexpr int kColumns = 11;
inline constexpr int kCrop = 5;  // the crop's side; the player is in its middle
inline constexpr int kObservationBytes = 3 * kCrop * kCrop;
inline constexpr int kMaxApples = 22;
inline constexpr int kMaxPhaseSteps = 1'000'000;
inline constexpr int kActions = 4;  // north, south, west, east

enum Phase : std::uint8_t { kExplore = 0, kDistractor = 1, kReward = 2, kPhases = 3 };

struct Cell {
  std::uint8_t row, column;
  friend constexpr bool operator==(const Cell&, const Cell&) = default;
};

HOST_DEVICE constexpr bool same(Cell a, Cell b) { return a.row == b.row && a.column == b.column; }

// Cells to draw from.
struct CellList {
  Cell cell[32];
  int count;
};

HOST_DEVICE constexpr Cell draw_cell(const CellList& list, Rng& rng) {
  return list.cell[list.count == 1 ? 0 : rng.below(static_cast<std::uint32_t>(list.count))];
}

struct Palette {
  Rgb floor{204, 204, 204}, wall{25, 25, 25}, player{228, 148, 109}, apple{140, 178, 0};
  Rgb key{159, 81, 44}, door{134, 206, 235}, indicator{255, 255, 255};
  Rgb square[3]{{255, 0, 0}, {0, 255, 0}, {0, 0, 255}};
};

// Of what the boards share.
std::vector<ColourMeaning> colours(const Palette& palette);

// One phase's map. `open` has a margin of one closed cell, so that a step off the board needs no check of its own:
// bit column + 1 of open[row + 1] is set where the player may stand. `planes` holds the colours of floor and walls,
// channel-first, with the margin of two floor cells that the crop can reach, and room at the end for reading 8 bytes.
struct Map {
  static constexpr int kStride = 16;
  static constexpr int kPlane = (kRows + 4) * kStride;

  std::uint16_t open[kRows + 2];
  alignas(4) std::uint8_t planes[3 * kPlane + 8];
};

struct Params {
  Map map[kPhases];
  int phase_steps[kPhases];  // 0: the phase is left out (the distractor phase only)
  CellList starts[kPhases];  // where the player may start
  CellList apple_cells;      // where apples may lie
  int num_apples;
  int respawn_every;  // in steps; 0: an apple that was taken never comes back
  float apple_reward;
  float final_reward;
  Palette palette;
  // For the crop: eight bytes whose byte i is 255 where bit i of the index is set, and, for each channel, eight times
  // (floor colour xor apple colour).
  std::uint64_t spread[1 << kCrop];
  std::uint64_t floor_to_apple[3];
};

HOST_DEVICE constexpr int episode_steps(const Params& params) {
  return params.phase_steps[kExplore] + params.phase_steps[kDistractor] + params.phase_steps[kReward];
}

struct State {
  std::uint64_t apples;  // bit apple_bit(cell): an apple lies there
  std::int32_t frame;    // steps since the phase began
  std::uint8_t phase;
  Cell player;
  // Apples that were taken, a ring in the order of pickup: the first of them is always the next to come back.
  std::uint8_t taken_head;
  std::uint8_t taken_count;
  std::uint32_t taken[kMaxApples];  // the frame of return << 6 | apple_bit
};

// Apples lie in rows 1 to 5: 55 cells, one bit each. Any other cell gives a number outside 0 .. 54.
inline constexpr unsigned kAppleBits = 5 * kColumns;
HOST_DEVICE constexpr unsigned apple_bit(int row, int column) {
  return static_cast<unsigned>((row - 1) * kColumns + column);
}

HOST_DEVICE constexpr bool has_apple(const State& state, int row, int column) {
  const unsigned bit = apple_bit(row, column);
  return bit < kAppleBits && ((state.apples >> bit) & 1) != 0;
}

// `num_apples` of the listed cells, each choice equally likely (Floyd's sampling without replacement).
HOST_DEVICE constexpr std::uint64_t draw_apples(const Params& params, Rng& rng) {
  std::uint32_t chosen = 0;
  for (int last = params.apple_cells.count - params.num_apples; last < params.apple_cells.count; ++last) {
    const std::uint32_t pick = std::uint32_t{1} << rng.below(static_cast<std::uint32_t>(last + 1));
    chosen |= (chosen & pick) == 0 ? pick : std::uint32_t{1} << last;
  }
  std::uint64_t apples = 0;
  for (int i = 0; i < params.apple_cells.count; ++i) {
    const Cell cell = params.apple_cells.cell[i];
    if ((chosen >> i) & 1) apples |= std::uint64_t{1} << apple_bit(cell.row, cell.column);
  }
  return apples;
}

HOST_DEVICE constexpr bool is_open(const Map& map, int row, int column) {
  return ((map.open[row + 1] >> (column + 1)) & 1) != 0;
}

// Where the action leads from `from`: 0 north, 1 south, 2 west, 3 east. May lie off the board.
struct Target {
  int row, column;
};
HOST_DEVICE constexpr Target target_of(Cell from, int action) {
  return {from.row + (action == 1) - (action == 0), from.column + (action == 3) - (action == 2)};
}

// Moves the player to `target` if `open`, without a branch: actions are unpredictable.
HOST_DEVICE constexpr void move_to(State& state, Target target, bool open) {
  const int taken = open ? 1 : 0;
  state.player.row = static_cast<std::uint8_t>(state.player.row + (target.row - state.player.row) * taken);
  state.player.column = static_cast<std::uint8_t>(state.player.column + (target.column - state.player.column) * taken);
}

// The apples' part of a step, after the player has moved: the apple under the player is taken, then the one whose
// time has come (pickup frame + respawn_every < frame; at most one, as at most one is taken a frame) comes back.
HOST_DEVICE constexpr float update_apples(const Params& params, State& state) {
  float reward = 0;
  if (has_apple(state, state.player.row, state.player.column)) {
    const unsigned bit = apple_bit(state.player.row, state.player.column);
    state.apples &= ~(std::uint64_t{1} << bit);
    reward = params.apple_reward;
    if (params.respawn_every > 0) {
      const int slot = state.taken_head + state.taken_count;
      const std::uint32_t due = static_cast<std::uint32_t>(state.frame + params.respawn_every + 1);
      state.taken[slot < kMaxApples ? slot : slot - kMaxApples] = due << 6 | bit;
      ++state.taken_count;
    }
  }
  if (state.taken_count > 0 && state.taken[state.taken_head] >> 6 == static_cast<std::uint32_t>(state.frame)) {
    state.apples |= std::uint64_t{1} << (state.taken[state.taken_head] & 63);
    state.taken_head = state.taken_head + 1 < kMaxApples ? static_cast<std::uint8_t>(state.taken_head + 1) : 0;
    --state.taken_count;
  }
  return reward;
}

// Ends the phase if its time is up and puts the player on the start of the phase that follows; that of the reward phase
// is given. After the last phase everything stays as it is, so that the last observation can still be read.
HOST_DEVICE constexpr End end_phase(const Params& params, State& state, Cell reward_start) {
  if (state.frame < params.phase_steps[state.phase]) return End::kNone;
  if (state.phase == kReward) return End::kTerminated;
  const bool to_distractor = state.phase == kExplore && params.phase_steps[kDistractor] > 0;
  state.phase = to_distractor ? kDistractor : kReward;
  state.player = to_distractor ? params.starts[kDistractor].cell[0] : reward_start;
  state.frame = 0;
  return End::kNone;
}

// The apples in each row of the crop: eight bytes, 255 where the crop shows an apple.
struct AppleRows {
  std::uint64_t row[kCrop];
};
HOST_DEVICE inline AppleRows apples_in_crop(const Params& params, const State& state) {
  AppleRows apples{};
  if (state.phase != kDistractor) return apples;
  // Bit 11 i + j of the window is row i, column j of the crop; `inside` clears columns that lie off the board.
  const int shift = (state.player.row - 3) * kColumns + state.player.column - 2;
  const std::uint64_t window = shift >= 0 ? state.apples >> shift : state.apples << -shift;
  const unsigned inside = (((1u << kColumns) - 1) << 2 >> state.player.column) & ((1u << kCrop) - 1);
  for (int i = 0; i < kCrop; ++i) apples.row[i] = params.spread[(window >> (kColumns * i)) & inside];
  return apples;
}

#if !defined(__CUDA_ARCH__)

// Eight bytes from any address, in memory order.
HOST_DEVICE inline std::uint64_t load8(const std::uint8_t* from) {
  std::uint64_t word;
  memcpy(&word, from, 8);
  return word;
}

// The 5 x 5 crop around the player without what moves: floor, walls and (in the distractor phase) apples, then the
// player. Rows are copied as words of eight bytes: each overwrites the three bytes too many of the one before it.
HOST_DEVICE inline void observe_map(const Params& params, const State& state, std::uint8_t* out) {
  const std::uint8_t* const corner =
      params.map[state.phase].planes + state.player.row * Map::kStride + state.player.column;
  const AppleRows apples = apples_in_crop(params, state);
  for (int channel = 0; channel < 3; ++channel)
    for (int i = 0; i < kCrop; ++i) {
      const std::uint64_t row =
          load8(corner + channel * Map::kPlane + i * Map::kStride) ^ (apples.row[i] & params.floor_to_apple[channel]);
      const int at = (channel * kCrop + i) * kCrop;
      memcpy(out + at, &row, at + 8 <= kObservationBytes ? 8 : kCrop);
    }
  constexpr int kMiddle = kCrop * kCrop / 2;
  out[kMiddle] = params.palette.player.red;
  out[kMiddle + kCrop * kCrop] = params.palette.player.green;
  out[kMiddle + 2 * kCrop * kCrop] = params.palette.player.blue;
}

#else

// The same bytes. A GPU reads and writes words only where they are aligned: the five bytes of a row lie in two aligned
// words, the 75 bytes of the crop are packed in registers and written as 17 aligned words and the seven bytes before
// and after them.
HOST_DEVICE inline void observe_map(const Params& params, const State& state, std::uint8_t* out) {
  static_assert(Map::kStride % 4 == 0 && Map::kPlane % 4 == 0 && kCrop == 5);
  const auto* const corner = reinterpret_cast<const std::uint32_t*>(params.map[state.phase].planes) +
                             state.player.row * (Map::kStride / 4) + state.player.column / 4;
  const unsigned shift = state.player.column % 4 * 8;
  const AppleRows apples = apples_in_crop(params, state);
  constexpr int kWords = (kObservationBytes + 3) / 4;
  std::uint32_t word[kWords];
  std::uint64_t packed = 0;
  int bits = 0, words = 0;
#pragma unroll
  for (int channel = 0; channel < 3; ++channel)
#pragma unroll
    for (int i = 0; i < kCrop; ++i) {
      const std::uint32_t* const from = corner + (channel * Map::kPlane + i * Map::kStride) / 4;
      const std::uint32_t low = __funnelshift_r(from[0], from[1], shift), high = (from[1] >> shift) & 255;
      const std::uint64_t apple = apples.row[i] & params.floor_to_apple[channel] & ((std::uint64_t{1} << 40) - 1);
      packed |= ((static_cast<std::uint64_t>(high) << 32 | low) ^ apple) << bits;
      for (bits += 8 * kCrop; bits >= 32; bits -= 32) {
        word[words++] = static_cast<std::uint32_t>(packed);
        packed >>= 32;
      }
    }
  word[kWords - 1] = static_cast<std::uint32_t>(packed);
  const auto set_byte = [&word](int at, std::uint32_t value) {
    word[at / 4] = (word[at / 4] & ~(255u << at % 4 * 8)) | value << at % 4 * 8;
  };
  constexpr int kMiddle = kCrop * kCrop / 2;
  set_byte(kMiddle, params.palette.player.red);
  set_byte(kMiddle + kCrop * kCrop, params.palette.player.green);
  set_byte(kMiddle + 2 * kCrop * kCrop, params.palette.player.blue);

  const unsigned before = reinterpret_cast<std::uintptr_t>(out) % 4;  // bytes of the first word that are not ours
  auto* const aligned = reinterpret_cast<std::uint32_t*>(out - before);
#pragma unroll
  for (int i = 1; i < kWords - 1; ++i) aligned[i] = __funnelshift_l(word[i - 1], word[i], 8 * before);
#pragma unroll
  for (int i = 0; i < 7; ++i) {
    const int at = i < 4 - static_cast<int>(before) ? i : i + 68;
    const std::uint32_t source = at == i ? word[0] : i < 4 ? word[17] : word[18];
    out[at] = static_cast<std::uint8_t>(source >> i % 4 * 8);
  }
}

#endif

// Paints one cell of the board, if the crop shows it.
HOST_DEVICE inline void paint(const State& state, Cell cell, Rgb colour, std::uint8_t* out) {
  const int row = cell.row - state.player.row + kCrop / 2;
  const int column = cell.column - state.player.column + kCrop / 2;
  if (row < 0 || row >= kCrop || column < 0 || column >= kCrop) return;
  std::uint8_t* const pixel = out + row * kCrop + column;
  pixel[0] = colour.red;
  pixel[kCrop * kCrop] = colour.green;
  pixel[2 * kCrop * kCrop] = colour.blue;
}

// ---- On the host: building maps from text, and pictures for people. Defined in board.cpp. ----

// What the tasks of the board can be configured in.
struct Options {
  int explore_steps = 15;
  int distractor_steps = 60;
  int reward_steps = 15;
  int num_apples = 10;
  double apple_reward = 1;
  double final_reward = 10;
  int respawn_every = 20;
  bool full_state = false;

  // What the help says of a task: "length of phase 1, where `explore`, in steps", "length of phase 3, `reward`, in
  // steps", "reward of `success`".
  struct Words {
    const char *explore, *reward, *success;
  };
  // All but full_state, which comes last in every task.
  void list_phases(OptionList& list, const Words& words);
};

// Lengths, apples, rewards and the standard palette.
void set_options(Params& params, const Options& options);

// A map as text, 7 rows of 11 characters.
using Text = std::array<std::string, kRows>;

// The three maps of a written level, with the characters of the golden episodes: # wall, + player, a apple,
// b c e the three squares, k key, d door, space floor.
struct Level {
  std::array<Text, kPhases> maps;
  Palette palette;  // square[0..2]: the colours of b, c, e
};

// Throws UserError if the level's map of this phase is not 7 rows of 11 of the `allowed` characters.
void check_map(const Level& level, Phase phase, std::string_view allowed);

// All cells that show `symbol`. Throws UserError if there are more than a CellList or (for a) kMaxApples can hold.
CellList find_cells(const Text& map, char symbol);

// The one cell that shows `symbol`. Throws UserError if there is none or another one; `phase` is for the message.
Cell find_only_cell(const Text& map, char symbol, Phase phase);

// Fills map and starts of a phase; the cells that show one of `walls` are closed and wall-coloured. Uses
// params.palette.
void set_map(Params& params, Phase phase, const Text& map, std::string_view walls);

// The apples' map and what the crop needs to draw apples. Throws UserError if an apple lies in row 0 or 6.
void set_apple_map(Params& params, const Text& map);

// The 22 cells where apples may lie, and the player's start.
const Text& apple_text();

// The state in which a written level begins: all apples of the second map are there.
State state_of_level(const Params& params);

// Everything that observe_map shows, for the whole board.
void draw_map(const Params& params, const State& state, Canvas& canvas);

std::string phase_name(const State& state);

// What both tasks say of themselves; `board` in their parameters and states is what stands here.
struct Game {
  static constexpr int kNumActions = kActions;
  static constexpr const char* kActionNames[] = {"north", "south", "west", "east"};
  using Element = std::uint8_t;

  template <class OwnParams>
  static std::vector<std::int64_t> observation_shape(const OwnParams&) {
    return {3, kCrop, kCrop};
  }
  template <class OwnParams>
  static int max_episode_steps(const OwnParams& params) {
    return episode_steps(params.board);
  }
  template <class OwnParams, class OwnState>
  static std::string phase(const OwnParams&, const OwnState& state) {
    return phase_name(state.board);
  }
};

}  // namespace engram::board
