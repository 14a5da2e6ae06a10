// GifWriter: frames as an animated GIF that plays for ever, through giflib. Of a frame only what changes is written,
// and equal frames are one that stands longer.
//
// Pixels are kept exactly as long as the film has at most 255 colours, and after that wherever the changes of one frame
// have at most 255; of more, the most frequent 255 are kept and the others shown as the nearest of them.
#pragma once

#include <cstdint>
#include <memory>
#include <ostream>

#include "video/rgb_image.h"

namespace engram {

class GifWriter {
 public:
  static constexpr int kMaxFramesPerSecond = 50;  // what viewers show: many slow a frame of less than 20 ms down
  static constexpr int kMaxSize = 65'535;         // pixels of width and height

  // The stream must be able to seek. Throws std::invalid_argument for an empty size or one beyond kMaxSize, and for a
  // rate that is not positive or beyond kMaxFramesPerSecond.
  GifWriter(std::ostream& stream, int width, int height, double frames_per_second);
  ~GifWriter();

  // Throws std::invalid_argument for a frame of another size.
  void write(const RgbImage& frame);
  // Completes the file. There must have been a frame. Failures of writing are the stream's to tell.
  void finish();

 private:
  class File;
  std::unique_ptr<File> file_;
};

}  // namespace engram
