#include "apps/cli/program.h"

int main(int argc, char** argv) { return engram::run_program(argc, argv); }
