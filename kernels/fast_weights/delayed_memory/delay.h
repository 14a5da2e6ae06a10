// When a step's key and value reach the fast weights of a delayed HQLT: as many steps later as a window holds, or with
// all of their chunk.
#pragma once

namespace engram {

enum class Delay { kStream, kChunk };

}  // namespace engram
