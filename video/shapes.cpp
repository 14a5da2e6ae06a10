#include "video/shapes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace engram {

RgbImage::RgbImage(int width, int height, Rgb colour)
    : width(width), height(height), pixels(static_cast<std::size_t>(width) * height * 3) {
  fill_box(*this, {0, 0, width, height}, colour);
}

void fill_box(RgbImage& image, const Box& box, Rgb colour) {
  const int left = std::max(0, box.x), right = std::min(image.width, box.right());
  for (int y = std::max(0, box.y); y < std::min(image.height, box.bottom()); ++y) {
    std::uint8_t* pixel = image.pixels.data() + 3 * (static_cast<std::size_t>(y) * image.width + left);
    for (int x = left; x < right; ++x) {
      *pixel++ = colour.red;
      *pixel++ = colour.green;
      *pixel++ = colour.blue;
    }
  }
}

void outline_box(RgbImage& image, const Box& box, Rgb colour, int thickness) {
  fill_box(image, {box.x, box.y, box.width, thickness}, colour);
  fill_box(image, {box.x, box.bottom() - thickness, box.width, thickness}, colour);
  fill_box(image, {box.x, box.y, thickness, box.height}, colour);
  fill_box(image, {box.right() - thickness, box.y, thickness, box.height}, colour);
}

void fill_arrow(RgbImage& image, const Box& box, Facing facing, Rgb colour) {
  const int margin = box.width / 5, length = box.width - 2 * margin;
  // From the base to the tip, a line across each.
  for (int along = 0; along < length; ++along) {
    const int width = std::max(1, length - along), from = margin + (length - width) / 2;
    const int ahead = margin + along, behind = box.width - 1 - ahead;
    switch (facing) {
      case Facing::kRight:
        fill_box(image, {box.x + ahead, box.y + from, 1, width}, colour);
        break;
      case Facing::kDown:
        fill_box(image, {box.x + from, box.y + ahead, width, 1}, colour);
        break;
      case Facing::kLeft:
        fill_box(image, {box.x + behind, box.y + from, 1, width}, colour);
        break;
      case Facing::kUp:
        fill_box(image, {box.x + from, box.y + behind, width, 1}, colour);
        break;
    }
  }
}

}  // namespace engram
