// A picture as the bytes of a PNG file.
#pragma once

#include <string>

#include "video/rgb_image.h"

namespace engram {

std::string encode_png(const RgbImage& image);

}  // namespace engram
