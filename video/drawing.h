// Drawing on an RgbImage: filled boxes, outlines and text; and the colours that all pictures share.
#pragma once

#include <string>
#include <vector>

#include "video/rgb_image.h"

namespace engram {

namespace palette {
inline constexpr Rgb kBackground{250, 250, 250};
inline constexpr Rgb kText{32, 33, 36};
inline constexpr Rgb kMuted{110, 114, 120};
inline constexpr Rgb kTrack{226, 228, 232};
inline constexpr Rgb kBar{158, 178, 208};
inline constexpr Rgb kAccent{26, 100, 200};
inline constexpr Rgb kSuccess{24, 128, 56};
inline constexpr Rgb kFailure{196, 44, 36};
inline constexpr Rgb kOnColour{255, 255, 255};
}  // namespace palette

// Everything drawn outside the picture is cut off.
void fill_box(RgbImage& image, const Box& box, Rgb colour);
// A line of the given thickness just inside the box.
void outline_box(RgbImage& image, const Box& box, Rgb colour, int thickness);
// A triangle in the middle of a square box, its tip towards where it faces.
void fill_arrow(RgbImage& image, const Box& box, Facing facing, Rgb colour);
// Copies a picture to (x, y).
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
