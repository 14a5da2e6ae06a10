#include "video/gif_writer.h"

#include <doctest/doctest.h>
#include <gif_lib.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <opencv2/imgproc.hpp>
#include <opencv2/videoio.hpp>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "tests/storage/temporary_folder.h"
#include "tests/video/pictures.h"
#include "video/drawing.h"

namespace engram {
namespace {

// What giflib reads back: every picture as a viewer has it on the screen, and how long it stands.
struct ReadGif {
  std::vector<RgbImage> frames;
  std::vector<int> delays;        // 1/100 s
  std::vector<Box> boxes;         // of what was written
  std::vector<bool> own_palette;  // rather than the file's
  bool plays_for_ever = false;
};

ReadGif read_gif(const std::string& bytes) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "film.gif";
  std::ofstream(file, std::ios::binary) << bytes;
  GifFileType* const gif = DGifOpenFileName(file.c_str(), nullptr);
  REQUIRE(gif != nullptr);
  REQUIRE(DGifSlurp(gif) == GIF_OK);
  ReadGif read;
  RgbImage screen(gif->SWidth, gif->SHeight, {1, 2, 3});
  for (int i = 0; i < gif->ImageCount; ++i) {
    const SavedImage& picture = gif->SavedImages[i];
    GraphicsControlBlock control{};
    REQUIRE(DGifSavedExtensionToGCB(gif, i, &control) == GIF_OK);
    CHECK(control.DisposalMode == DISPOSE_DO_NOT);
    const GifImageDesc& place = picture.ImageDesc;
    const ColorMapObject& colours = place.ColorMap != nullptr ? *place.ColorMap : *gif->SColorMap;
    for (int y = 0; y < place.Height; ++y)
      for (int x = 0; x < place.Width; ++x) {
        const int index = picture.RasterBits[y * place.Width + x];
        if (index == control.TransparentColor) continue;
        const GifColorType colour = colours.Colors[index];
        fill_box(screen, {place.Left + x, place.Top + y, 1, 1}, {colour.Red, colour.Green, colour.Blue});
      }
    read.frames.push_back(screen);
    read.delays.push_back(control.DelayTime);
    read.boxes.push_back({place.Left, place.Top, place.Width, place.Height});
    read.own_palette.push_back(place.ColorMap != nullptr);
    for (int block = 0; block < picture.ExtensionBlockCount; ++block) {
      const ExtensionBlock& extension = picture.ExtensionBlocks[block];
      const std::string text(reinterpret_cast<const char*>(extension.Bytes),
                             static_cast<std::size_t>(extension.ByteCount));
      if (extension.Function == APPLICATION_EXT_FUNC_CODE && text == "NETSCAPE2.0") read.plays_for_ever = true;
    }
  }
  DGifCloseFile(gif, nullptr);
  return read;
}

std::string written(int width, int height, double rate, const std::vector<RgbImage>& frames) {
  std::ostringstream stream;
  GifWriter writer(stream, width, height, rate);
  for (const RgbImage& frame : frames) writer.write(frame);
  writer.finish();
  return stream.str();
}

// A square that walks over a striped ground.
std::vector<RgbImage> walk(int width, int height, int steps) {
  std::vector<RgbImage> frames;
  for (int step = 0; step < steps; ++step) {
    RgbImage frame(width, height, {250, 250, 250});
    for (int x = 0; x < width; x += 7) fill_box(frame, {x, 0, 2, height}, {20, static_cast<std::uint8_t>(x), 90});
    fill_box(frame, {3 * step, 2 * step, 9, 5}, {200, 40, static_cast<std::uint8_t>(10 * step)});
    frames.push_back(frame);
  }
  return frames;
}

TEST_CASE("frames are read back exactly, by giflib and by FFmpeg, and only what changes is written") {
  const std::vector<RgbImage> frames = walk(82, 46, 12);
  const std::string bytes = written(82, 46, 10, frames);
  const ReadGif read = read_gif(bytes);
  REQUIRE(read.frames.size() == frames.size());
  CHECK(read.plays_for_ever);
  for (std::size_t i = 0; i < frames.size(); ++i) {
    CAPTURE(i);
    CHECK(read.frames[i].pixels == frames[i].pixels);
    CHECK(read.delays[i] == 10);
    CHECK_FALSE(read.own_palette[i]);
    if (i == 0) continue;
    const int x = 3 * static_cast<int>(i - 1), y = 2 * static_cast<int>(i - 1);
    CHECK(std::tuple(read.boxes[i].x, read.boxes[i].y, read.boxes[i].width, read.boxes[i].height) ==
          std::tuple(x, y, 12, 7));
  }

  const TemporaryFolder folder;
  const auto file = folder.path() / "film.gif";
  std::ofstream(file, std::ios::binary) << bytes;
  cv::VideoCapture capture(file.string());
  std::size_t count = 0;
  for (cv::Mat frame; capture.read(frame); ++count) {
    REQUIRE(count < frames.size());
    cv::Mat rgb;
    cv::cvtColor(frame, rgb, cv::COLOR_BGR2RGB);
    CHECK(std::vector<std::uint8_t>(rgb.datastart, rgb.dataend) == frames[count].pixels);
  }
  CHECK(count == frames.size());
}

TEST_CASE("equal frames are one that stands longer, and rates that are no whole hundredths keep their time") {
  const std::vector<RgbImage> two = walk(20, 20, 2);
  const ReadGif read = read_gif(written(20, 20, 30, {two[0], two[0], two[0], two[0], two[1], two[0], two[0]}));
  CHECK(read.delays == std::vector<int>{13, 4, 6});  // to 4/30, 5/30 and 7/30 s, rounded
  CHECK(read.frames[2].pixels == two[0].pixels);

  // Longer than a picture can stand: another one follows that changes nothing.
  const ReadGif still = read_gif(written(20, 20, 0.1, std::vector<RgbImage>(70, two[0])));
  CHECK(still.delays == std::vector<int>{65'000, 5'000});
  CHECK(still.frames[1].pixels == two[0].pixels);
}

TEST_CASE("colours: the file has one palette as long as they fit, a picture of too many for it has its own") {
  const auto ramp = [](int colours, std::uint8_t blue) {
    RgbImage frame(64, 32, {0, 0, blue});
    for (int i = 0; i < colours; ++i)
      fill_box(frame, {i % 64, i / 64, 1, 1},
               {static_cast<std::uint8_t>(i % 256), static_cast<std::uint8_t>(i / 256 * 90), blue});
    return frame;
  };
  const std::vector<RgbImage> frames = {ramp(255, 0), ramp(200, 80), ramp(255, 0), ramp(250, 160)};
  const ReadGif read = read_gif(written(64, 32, 10, frames));
  CHECK(read.own_palette == std::vector<bool>{false, true, false, true});
  for (std::size_t i = 0; i < frames.size(); ++i) CHECK(read.frames[i].pixels == frames[i].pixels);

  // Of more than 255 in one picture the most frequent stay, and every other one is shown as the nearest of them.
  RgbImage crowd = ramp(600, 0);
  fill_box(crowd, {0, 20, 64, 12}, {255, 255, 255});
  const ReadGif many = read_gif(written(64, 32, 10, {crowd}));
  const auto distance = [](Rgb a, Rgb b) {
    const int red = a.red - b.red, green = a.green - b.green, blue = a.blue - b.blue;
    return red * red + green * green + blue * blue;
  };
  std::set<std::tuple<int, int, int>> kept;
  for (int i = 0; i < 64 * 32; ++i) {
    const Rgb shown = many.frames[0].at(i % 64, i / 64);
    kept.emplace(shown.red, shown.green, shown.blue);
  }
  CHECK(kept.size() == 255);
  for (int i = 0; i < 64 * 32; ++i) {
    const Rgb shown = many.frames[0].at(i % 64, i / 64), wanted = crowd.at(i % 64, i / 64);
    if (wanted == Rgb{255, 255, 255} || wanted == Rgb{0, 0, 0}) CHECK(shown == wanted);  // many pixels
    int nearest = distance(shown, wanted);
    for (const auto& [red, green, blue] : kept)
      nearest = std::min(nearest, distance({static_cast<std::uint8_t>(red), static_cast<std::uint8_t>(green),
                                            static_cast<std::uint8_t>(blue)},
                                           wanted));
    CHECK(distance(shown, wanted) == nearest);
  }
}

TEST_CASE("a stream that has begun keeps what stands before, and a film without frames is refused") {
  std::ostringstream stream;
  stream << "before";
  GifWriter writer(stream, 20, 20, 10);
  CHECK_THROWS_AS(writer.finish(), std::logic_error);
  const std::vector<RgbImage> frames = walk(20, 20, 3);
  for (const RgbImage& frame : frames) writer.write(frame);
  CHECK_THROWS_AS(writer.write(RgbImage(20, 21, {0, 0, 0})), std::invalid_argument);
  writer.finish();
  REQUIRE(stream.str().starts_with("beforeGIF89a"));
  const ReadGif read = read_gif(stream.str().substr(6));
  CHECK(read.frames.back().pixels == frames.back().pixels);
}

TEST_CASE("sizes and rates that a GIF cannot have are refused") {
  std::ostringstream stream;
  const auto make = [&](int width, int height, double rate) { GifWriter(stream, width, height, rate); };
  CHECK_THROWS_AS(make(0, 20, 10), std::invalid_argument);
  CHECK_THROWS_AS(make(20, 65'536, 10), std::invalid_argument);
  CHECK_THROWS_AS(make(20, 20, 0), std::invalid_argument);
  CHECK_THROWS_AS(make(20, 20, 50.5), std::invalid_argument);
  CHECK(stream.str().empty());
}

}  // namespace
}  // namespace engram
