// The film of a final evaluation in a program that was built without OpenCV or giflib: there is none.
#include <filesystem>
#include <optional>

#include "apps/train/final_film.h"

namespace engram {

std::optional<FinalFilm> film_final_evaluation(const std::filesystem::path&) { return {}; }

}  // namespace engram
