// The film strip of a report by a program that was built without OpenCV.
#include <vector>

#include "apps/compare/report.h"

namespace engram {

FilmStrip film_runs(const std::vector<const RunResult*>&) {
  return {"", "This report was made by an engram without video, which films nothing."};
}

}  // namespace engram
