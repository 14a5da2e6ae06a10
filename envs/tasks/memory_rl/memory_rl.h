// Where the sizes of visual match, key-to-door and the T-maze were published.
#pragma once

namespace engram {

inline constexpr const char* kMemoryRlSource = "Ni et al., When do Transformers shine in RL?, NeurIPS 2023 (Memory-RL)";

}  // namespace engram
