// engram COMMAND [arguments], as a function: of the program engram, and of programs with tasks and backbones of one's
// own (engram_add_program, cmake/AddProgram.cmake).
#pragma once

namespace engram {

// Runs the command that the arguments name, after prepare(), where there is one: add_task and add_backbone belong
// there. To be called before there are other threads (apps/cli/taken_signals.h). Returns the exit status: 0 success, 1
// a failure of the program or the machine, 2 bad input, 3 training has diverged, 4 out of memory, 5 no room for a
// further program on the GPU, all but the first with a line on stderr; 128 and the number of the signal that stopped
// it.
int run_program(int argc, char** argv, void (*prepare)() = nullptr);

}  // namespace engram
