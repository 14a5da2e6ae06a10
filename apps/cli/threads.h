// The threads of a command.
#pragma once

namespace engram {

// Of LibTorch and of environments, for the whole program; 0: all processors available. Returns the number.
// agents/run/machine/hardware.h chooses one.
int use_threads(int threads);

}  // namespace engram
