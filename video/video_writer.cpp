#include "video/video_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <opencv2/core/utils/logger.hpp>
#include <opencv2/imgproc.hpp>
#include <opencv2/videoio.hpp>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/throw_error.h"
#include "video/drawing.h"
#include "video/gif_writer.h"

namespace engram {
namespace {

struct Container {
  const char* extension;
  const char* fourcc;  // of OpenCV's codec; null: giflib
  int backend;         // named, so that no other backend is tried, and heard, first
};
constexpr Container kContainers[] = {
    {".mp4", "avc1", cv::CAP_FFMPEG},
    {".webm", "VP80", cv::CAP_FFMPEG},
    {".avi", "MJPG", cv::CAP_OPENCV_MJPEG},
    {".gif", nullptr, 0},
};

std::string supported_extensions() {
  std::string supported;
  for (const Container& container : kContainers)
    supported += (supported.empty() ? "" : ", ") + std::string(container.extension);
  return supported;
}

// Throws UserError for an extension that is none of the containers'.
const Container& container_of(const std::filesystem::path& file) {
  std::string extension = file.extension().string();
  std::ranges::transform(extension, extension.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const Container& container : kContainers) {
    if (extension == container.extension) return container;
  }
  throw UserError("cannot write a video to '" + file.string() + "': " +
                  (extension.empty() ? "it has no extension" : "extension '" + extension + "' is not supported") +
                  "; use one of " + supported_extensions());
}

std::filesystem::path partial_of(const std::filesystem::path& file) {
  std::filesystem::path name = ".";
  name += file.stem();
  name += ".partial";
  name += file.extension();
  return file.parent_path() / name;
}

// What OpenCV and FFmpeg print of their own is of no use to our user: failures are found and told here.
void silence_logs() {
  setenv("OPENCV_FFMPEG_LOGLEVEL", "-8", 0);  // AV_LOG_QUIET; read when FFmpeg is first used
  cv::utils::logging::setLogLevel(cv::utils::logging::LOG_LEVEL_SILENT);
}

// Discards standard error while it lives: opening a .webm prints a remark whatever the log level.
class QuietStderr {
 public:
  QuietStderr() : kept_(dup(STDERR_FILENO)) {
    std::fflush(stderr);
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDERR_FILENO);
    close(nowhere);
  }
  ~QuietStderr() {
    std::fflush(stderr);
    dup2(kept_, STDERR_FILENO);
    close(kept_);
  }
  QuietStderr(const QuietStderr&) = delete;
  QuietStderr& operator=(const QuietStderr&) = delete;

 private:
  int kept_;
};

std::string cannot_write(const std::filesystem::path& file) { return "cannot write '" + file.string() + "'"; }

// Why a file that is of no use any more does not grow: 0, where it does, or the error number. OpenCV tells of no write
// that failed; after one the next fails as well.
int growing_error(const std::filesystem::path& file) {
  const std::vector<char> more(1 << 20);
  errno = 0;
  std::ofstream stream(file, std::ios::binary | std::ios::app);
  if (stream.write(more.data(), static_cast<std::streamsize>(more.size())).flush()) return 0;
  return errno != 0 ? errno : EIO;
}

// Counts by decoding: what a container's header says of its length is a guess in some of them.
std::int64_t count_frames(const std::filesystem::path& file) {
  cv::VideoCapture capture(file.string());
  std::int64_t frames = 0;
  while (capture.grab()) ++frames;
  return frames;
}

}  // namespace

class VideoWriter::Encoder {
 public:
  virtual ~Encoder() = default;
  virtual void write(const RgbImage& frame) = 0;
  // Closes the file.
  virtual void close() = 0;
  // Why the closed file is not whole; empty if it is.
  virtual std::string damage(const std::filesystem::path& file, std::int64_t frames) = 0;
};

class VideoWriter::OpenCvEncoder final : public Encoder {
 public:
  OpenCvEncoder(const std::filesystem::path& file, const Container& container, cv::Size size, double rate) {
    silence_logs();
    const char* const code = container.fourcc;
    const QuietStderr quiet;
    writer_.open(file.string(), container.backend, cv::VideoWriter::fourcc(code[0], code[1], code[2], code[3]), rate,
                 size);
  }
  bool is_open() const { return writer_.isOpened(); }

  void write(const RgbImage& frame) override {
    const cv::Mat rgb(frame.height, frame.width, CV_8UC3, const_cast<std::uint8_t*>(frame.pixels.data()));
    cv::Mat bgr;
    cv::cvtColor(rgb, bgr, cv::COLOR_RGB2BGR);
    writer_.write(bgr);
  }
  void close() override { writer_.release(); }
  // OpenCV reports no failure of a write.
  std::string damage(const std::filesystem::path& file, std::int64_t frames) override {
    const std::int64_t readable = count_frames(file);
    if (readable == frames) return "";
    return std::to_string(readable) + " of " + std::to_string(frames) + " frames can be read back";
  }

 private:
  cv::VideoWriter writer_;
};

class VideoWriter::GifEncoder final : public Encoder {
 public:
  GifEncoder(const std::filesystem::path& file, int width, int height, double rate)
      : stream_(file, std::ios::binary), writer_(stream_, width, height, rate) {}

  void write(const RgbImage& frame) override { writer_.write(frame); }
  void close() override {
    writer_.finish();
    stream_.close();
  }
  std::string damage(const std::filesystem::path&, std::int64_t) override {
    return stream_ ? "" : "not all of it could be written";
  }

 private:
  std::ofstream stream_;
  GifWriter writer_;
};

void check_video_file(const std::filesystem::path& file) {
  container_of(file);
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  if (!std::filesystem::is_directory(folder)) {
    throw UserError(cannot_write(file) + ": there is no folder '" + folder.string() + "'");
  }
  if (std::filesystem::is_directory(file)) throw UserError(cannot_write(file) + ": it is a folder");
  const std::filesystem::path partial = partial_of(file);
  if (!std::ofstream(partial, std::ios::binary))
    throw_error(cannot_write(file) + ": folder '" + folder.string() + "' cannot be written", errno);
  std::filesystem::remove(partial);
}

VideoWriter::VideoWriter(std::filesystem::path file, int width, int height, double frames_per_second)
    : file_(std::move(file)), partial_(partial_of(file_)), width_(width), height_(height) {
  if (width < 2 || height < 2 || width % 2 != 0 || height % 2 != 0 || !(frames_per_second > 0)) {
    throw std::invalid_argument("VideoWriter: " + std::to_string(width) + " x " + std::to_string(height) + " at " +
                                std::to_string(frames_per_second) + " frames per second");
  }
  check_video_file(file_);
  const Container& container = container_of(file_);
  if (container.fourcc == nullptr) {
    if (frames_per_second > GifWriter::kMaxFramesPerSecond)
      throw UserError(cannot_write(file_) + ": a .gif shows at most " + std::to_string(GifWriter::kMaxFramesPerSecond) +
                      " frames per second, not " + rounded_number_text(frames_per_second));
    encoder_ = std::make_unique<GifEncoder>(partial_, width, height, frames_per_second);
    return;
  }
  auto encoder = std::make_unique<OpenCvEncoder>(partial_, container, cv::Size(width, height), frames_per_second);
  if (!encoder->is_open()) {
    const int error = growing_error(partial_);
    std::error_code ignored;
    std::filesystem::remove(partial_, ignored);
    if (error != 0) throw_error(cannot_write(file_), error);
    throw UserError(cannot_write(file_) + ": OpenCV has no encoder for " + container.extension + " (" +
                    container.fourcc + ") here; try another of " + supported_extensions());
  }
  encoder_ = std::move(encoder);
}

VideoWriter::~VideoWriter() {
  if (!encoder_) return;
  encoder_.reset();
  std::error_code ignored;
  std::filesystem::remove(partial_, ignored);
}

void VideoWriter::write(const RgbImage& frame) {
  if (frame.width != width_ || frame.height != height_) {
    throw std::invalid_argument("VideoWriter: a frame of another size");
  }
  encoder_->write(frame);
  ++frames_;
}

void VideoWriter::finish() {
  encoder_->close();
  if (const std::string damage = encoder_->damage(partial_, frames_); !damage.empty()) {
    if (const int error = growing_error(partial_)) throw_error(cannot_write(file_), error);
    throw FileError(cannot_write(file_) + ": " + damage);
  }
  std::error_code error;
  std::filesystem::rename(partial_, file_, error);
  if (error) throw_error(cannot_write(file_), error.value());
  encoder_.reset();
}

}  // namespace engram
