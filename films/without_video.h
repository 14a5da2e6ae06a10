// What stands for films in a build without OpenCV or giflib.
#pragma once

namespace engram {

inline constexpr const char* kWithoutVideo =
    "this engram was built without video; install OpenCV and giflib (Debian: libopencv-dev, libgif-dev) and build it "
    "with -DENGRAM_VIDEO=ON";

}  // namespace engram
