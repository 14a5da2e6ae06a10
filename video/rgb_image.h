// RgbImage: a picture of 8-bit RGB pixels; Box: a rectangle of its pixels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "envs/task.h"

namespace engram {

struct Box {
  int x = 0;
  int y = 0;
  int width = 0;
  int height = 0;

  int right() const { return x + width; }
  int bottom() const { return y + height; }
};

struct RgbImage {
  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> pixels;  // height x width x 3, the top row first

  RgbImage() = default;
  RgbImage(int width, int height, Rgb colour);

  Rgb at(int x, int y) const {
    const std::uint8_t* const pixel = &pixels[3 * (static_cast<std::size_t>(y) * width + x)];
    return {pixel[0], pixel[1], pixel[2]};
  }
};

}  // namespace engram
