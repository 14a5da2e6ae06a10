// The probe task "text": the next byte of a text of the user's, measured in bits a byte, as language models are
// compared (perplexity over bytes is 2 to that power).
#pragma once

#include <memory>

#include "experiments/probe/task.h"

namespace engram {

std::unique_ptr<ProbeTask> make_text_task();

}  // namespace engram
