// The film of a run's final evaluation, for TensorBoard.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace engram {

struct FinalFilm {
  std::string gif;  // animated
  int width, height;
};

// The first episode of the final evaluation, played greedily on the CPU by the run's best weights. Of a long episode
// every second, third ... step is shown, so that there are at most some 240 frames. None in a program without video.
// Throws UserError like load_trained_agent().
std::optional<FinalFilm> film_final_evaluation(const std::filesystem::path& run);

}  // namespace engram
