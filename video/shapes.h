// Shapes on an RgbImage: filled boxes, outlines and arrows; and the colours that all pictures share. Plain C++.
#pragma once

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

}  // namespace engram
