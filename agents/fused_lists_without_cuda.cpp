// Of a build without GPU support: no list is supported, and nothing else is called.
#include <stdexcept>

#include "agents/fused_lists.h"

namespace engram {
namespace {

[[noreturn]] void refuse_lists() { throw std::logic_error("fused lists in a build without GPU support"); }

}  // namespace

using torch::Tensor;

Support fused_lists_supports(const Tensor&) { return Support::no("engram was built without GPU support"); }

Tensor fused_list_norms(const std::vector<Tensor>&) { refuse_lists(); }
WatchedUpdate fused_watch_update(const Tensor&, const Tensor&, const Tensor&) { refuse_lists(); }
void fused_move_towards(const std::vector<Tensor>&, const std::vector<Tensor>&, double) { refuse_lists(); }
void fused_adam_step(const AdamLists&, double, const Tensor&, const Tensor&) { refuse_lists(); }

}  // namespace engram
