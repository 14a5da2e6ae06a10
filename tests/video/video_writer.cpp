#include "video/video_writer.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <opencv2/imgproc.hpp>
#include <opencv2/videoio.hpp>
#include <sstream>
#include <stdexcept>
#include <string>

#include "base/error.h"
#include "tests/contains.h"
#include "tests/storage/small_disk.h"
#include "tests/storage/temporary_folder.h"
#include "video/drawing.h"

namespace engram {
namespace {

constexpr int kWidth = 162, kHeight = 94, kFrames = 15;  // even, and no multiple of a codec's block of 8 or 16
const Rgb kColours[] = {{200, 40, 40}, {40, 180, 60}, {50, 60, 210}};

Rgb colour_of_frame(int frame) { return kColours[frame / 5]; }

void write_colours(VideoWriter& writer) {
  for (int frame = 0; frame < kFrames; ++frame) writer.write(RgbImage(kWidth, kHeight, colour_of_frame(frame)));
}

std::string contents_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

int count_entries(const std::filesystem::path& folder) {
  int entries = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++entries;
  return entries;
}

// The message of the UserError that making a writer for the file throws.
std::string refusal(const std::filesystem::path& file) {
  try {
    VideoWriter writer(file, kWidth, kHeight, 10);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("every kind of file is read back: frames, size, rate and colours") {
  const TemporaryFolder folder;
  for (const char* name : {"film.mp4", "film.webm", "film.avi", "FILM.MP4"}) {
    CAPTURE(name);
    const auto file = folder.path() / name;
    VideoWriter writer(file, kWidth, kHeight, 12);
    write_colours(writer);
    CHECK_FALSE(std::filesystem::exists(file));
    writer.finish();
    CHECK(writer.frames() == kFrames);

    cv::VideoCapture capture(file.string());
    REQUIRE(capture.isOpened());
    CHECK(capture.get(cv::CAP_PROP_FRAME_WIDTH) == kWidth);
    CHECK(capture.get(cv::CAP_PROP_FRAME_HEIGHT) == kHeight);
    CHECK(capture.get(cv::CAP_PROP_FPS) == doctest::Approx(12).epsilon(0.001));
    int frames = 0;
    for (cv::Mat frame; capture.read(frame); ++frames) {
      const cv::Scalar mean = cv::mean(frame);
      const Rgb expected = colour_of_frame(std::min(frames, kFrames - 1));
      // Lossy coding and the rounding of the colour conversion; a swap of channels would be off by more than 100.
      CHECK(std::abs(mean[2] - expected.red) < 8);
      CHECK(std::abs(mean[1] - expected.green) < 8);
      CHECK(std::abs(mean[0] - expected.blue) < 8);
    }
    CHECK(frames == kFrames);
  }
}

TEST_CASE("an mp4 holds H.264, which browsers play") {
  const TemporaryFolder folder;
  VideoWriter writer(folder.path() / "film.mp4", kWidth, kHeight, 10);
  write_colours(writer);
  writer.finish();
  const std::string bytes = contents_of(folder.path() / "film.mp4");
  CHECK(testing::contains(bytes, "avc1"));
  CHECK_FALSE(testing::contains(bytes, "mp4v"));
}

TEST_CASE("an interrupted film leaves nothing, and an older one as it was") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "film.mp4";
  std::ofstream(file) << "an older film";
  {
    VideoWriter writer(file, kWidth, kHeight, 10);
    write_colours(writer);
    CHECK(contents_of(file) == "an older film");
  }
  CHECK(contents_of(file) == "an older film");
  CHECK(count_entries(folder.path()) == 1);

  VideoWriter writer(file, kWidth, kHeight, 10);
  write_colours(writer);
  writer.finish();
  CHECK(contents_of(file) != "an older film");
  CHECK(count_entries(folder.path()) == 1);
}

TEST_CASE("what cannot be written is refused in one line that says why") {
  const TemporaryFolder folder;
  const std::string mov = refusal(folder.path() / "film.mov");
  CHECK(testing::contains(mov, "'.mov'"));
  CHECK(testing::contains(mov, ".mp4, .webm, .avi, .gif"));
  CHECK(testing::contains(refusal(folder.path() / "film"), "no extension"));
  CHECK(testing::contains(refusal(folder.path() / "missing" / "film.mp4"), "missing"));
  std::filesystem::create_directory(folder.path() / "folder.mp4");
  CHECK(testing::contains(refusal(folder.path() / "folder.mp4"), "is a folder"));
  CHECK(testing::contains(refusal("/proc/film.mp4"), "cannot be written"));  // not even root can
  CHECK(refusal("/proc/film.mp4").find('\n') == std::string::npos);
  CHECK(count_entries(folder.path()) == 1);
}

TEST_CASE("a .gif has every frame exactly, and a rate that it cannot have is refused") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "film.gif";
  VideoWriter writer(file, kWidth, kHeight, 20);
  write_colours(writer);
  CHECK_FALSE(std::filesystem::exists(file));
  writer.finish();
  CHECK(writer.frames() == kFrames);
  CHECK(count_entries(folder.path()) == 1);
  cv::VideoCapture capture(file.string());
  int pictures = 0;
  for (cv::Mat frame; capture.read(frame); ++pictures) {
    const Rgb colour = kColours[pictures];
    const cv::Mat expected(kHeight, kWidth, CV_8UC3, cv::Scalar(colour.blue, colour.green, colour.red));
    CHECK(cv::norm(frame, expected, cv::NORM_INF) == 0);
  }
  CHECK(pictures == 3);  // five equal frames each

  std::string refused;
  try {
    VideoWriter(folder.path() / "fast.gif", kWidth, kHeight, 60);
  } catch (const UserError& error) {
    refused = error.what();
  }
  CHECK(testing::contains(refused, "at most 50 frames per second, not 60"));
  CHECK(count_entries(folder.path()) == 1);
}

// The message of the FileError that a film of noise ends with.
std::string failure(const std::filesystem::path& file) {
  try {
    VideoWriter writer(file, kWidth, kHeight, 10);
    RgbImage noise(kWidth, kHeight, {0, 0, 0});
    std::uint32_t state = 1;
    for (int frame = 0; frame < kFrames; ++frame) {
      for (auto& value : noise.pixels) value = static_cast<std::uint8_t>((state = state * 1664525 + 1013904223) >> 24);
      writer.write(noise);
    }
    writer.finish();
  } catch (const FileError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("a full disk is noticed, named and nothing else is blamed") {
  const TemporaryFolder folder;
  for (const char* const name : {"film.avi", "film.gif", "film.mp4", "film.webm"}) {
    const auto file = folder.path() / name;
    for (const rlim_t bytes : {0, 10'000}) {  // not even a beginning; a part, for the whole film takes more
      CAPTURE(name);
      CAPTURE(bytes);
      std::string said;
      {
        const SmallDisk small(bytes);
        said = failure(file);
      }
      CHECK(said == "cannot write '" + file.string() + "': File too large");
      CHECK(count_entries(folder.path()) == 0);
    }
  }
}

TEST_CASE("odd sizes and other frames are refused, never cut") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "film.mp4";
  CHECK_THROWS_AS(VideoWriter(file, 161, 94, 10), std::invalid_argument);
  CHECK_THROWS_AS(VideoWriter(file, 162, 93, 10), std::invalid_argument);
  CHECK_THROWS_AS(VideoWriter(file, 162, 94, 0), std::invalid_argument);
  VideoWriter writer(file, kWidth, kHeight, 10);
  CHECK_THROWS_AS(writer.write(RgbImage(kWidth, kHeight + 2, {0, 0, 0})), std::invalid_argument);
}

TEST_CASE("nothing is printed on standard error") {
  const TemporaryFolder folder;
  const auto log = folder.path() / "log.txt";
  const int kept = dup(STDERR_FILENO);
  REQUIRE(std::freopen(log.c_str(), "w", stderr) != nullptr);
  for (const char* name : {"film.mp4", "film.webm", "film.avi", "film.gif"}) {
    VideoWriter writer(folder.path() / name, kWidth, kHeight, 10);
    write_colours(writer);
    writer.finish();
  }
  std::fflush(stderr);
  dup2(kept, STDERR_FILENO);
  close(kept);
  CHECK(contents_of(log) == "");
}

}  // namespace
}  // namespace engram
