// VideoWriter: frames into a video file through OpenCV or giflib, chosen by the file's extension:
//   .mp4   H.264, plays in every browser
//   .webm  VP8
//   .avi   Motion JPEG
//   .gif   animated GIF, plays wherever pictures are shown; exact (gif_writer.h)
// The file appears under its name when finish() has written all of it; until then it stands beside it, as
// .NAME.partial.EXTENSION, and an older file of that name stays as it is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "video/rgb_image.h"

namespace engram {

// Throws UserError if no VideoWriter can write a file of this name: its extension, a folder that does not exist or
// cannot be written; FileError where the disk takes none.
void check_video_file(const std::filesystem::path& file);

class VideoWriter {
 public:
  // Width and height must be even: codecs store colour at half resolution, and OpenCV would silently cut an odd row or
  // column. Throws like check_video_file; UserError for a rate that the kind of file cannot have, and if OpenCV was
  // built without the codec; std::invalid_argument for an odd or empty size or a rate that is not positive.
  VideoWriter(std::filesystem::path file, int width, int height, double frames_per_second);
  // Without finish() before, removes what was written.
  ~VideoWriter();

  // Throws std::invalid_argument for a frame of another size.
  void write(const RgbImage& frame);
  // Closes the video, checks that it can be read back whole, and gives it its name. Throws FileError where not all of
  // it could be written, with the disk's reason if it has one.
  void finish();

  std::int64_t frames() const { return frames_; }

 private:
  class Encoder;
  class OpenCvEncoder;
  class GifEncoder;

  std::filesystem::path file_;
  std::filesystem::path partial_;
  int width_;
  int height_;
  std::int64_t frames_ = 0;
  std::unique_ptr<Encoder> encoder_;
};

}  // namespace engram
