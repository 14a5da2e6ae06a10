#include "apps/program.h"

int main(int argc, char** argv) { return engram::run_program(argc, argv); }
