// engram render of a program that was built without OpenCV or giflib.
#include <string>
#include <vector>

#include "apps/cli/commands.h"
#include "base/error.h"
#include "films/without_video.h"

namespace engram {

void describe_render(const CommandVisitor& visit) { visit("render", OptionList(""), {}); }

int run_render(const std::vector<std::string>&) { throw UserError(kWithoutVideo); }

}  // namespace engram
