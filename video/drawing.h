// Drawing on an RgbImage through OpenCV: text and pictures.
#pragma once

#include <string>
#include <vector>

#include "video/rgb_image.h"
#include "video/shapes.h"

namespace engram {

// Copies a picture to (x, y). What lies outside the image is cut off, here and below.
void paste(RgbImage& image, const RgbImage& picture, int x, int y);

enum class Align { kLeft, kCentre, kRight };

struct TextStyle {
  int height = 10;  // of a capital letter, in pixels
  Rgb colour = palette::kText;
  bool bold = false;
};

int text_width(const std::string& text, const TextStyle& style);
// One line of ASCII text, centred in the height of `box` and aligned in its width; text that is too long is shortened
// to end in "..".
void draw_text(RgbImage& image, const std::string& text, const Box& box, const TextStyle& style,
               Align align = Align::kLeft);

// The text in rows of at most `width` pixels, broken at blanks; a word that is wider has a row of its own.
std::vector<std::string> wrapped_text(const std::string& text, const TextStyle& style, int width);

// "0.50" for 2 decimals.
std::string fixed_number_text(double value, int decimals);
// "1", "-0.02", "0.125": at most three decimals, no trailing zeros.
std::string rounded_number_text(double value);
// The same with a sign before positive numbers.
std::string signed_number_text(double value);

}  // namespace engram
