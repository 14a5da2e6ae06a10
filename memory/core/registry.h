// The memory backbones that a program knows: what each has to name, how one is added and how one is built. Their list
// is in all_backbones.h; a program of one's own adds its backbones to them by add_backbone.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/named_registry.h"
#include "base/options.h"
#include "memory/core/backbone_config.h"
#include "memory/core/backbone_options.h"
#include "memory/core/sequence_model.h"

namespace engram {

// The options of a backbone (backbone_options.h).
template <class Options>
concept BackboneOptions = std::copyable<Options> &&
    requires(Options options, const Options& const_options, OptionList& list) {
  { Options::kName } -> std::convertible_to<std::string>;
  { Options::kSummary } -> std::convertible_to<std::string>;
  { Options::kSource } -> std::convertible_to<std::string>;
  { const_options.width } -> std::convertible_to<std::int64_t>;
  {options.list_options(list)};
  {const_options.check()};
  { const_options.make(std::int64_t{}) } -> std::same_as<std::shared_ptr<SequenceModel>>;
};

template <BackboneOptions Options>
class BackboneOptionsOf final : public AnyBackboneOptions, public Options {
 public:
  std::unique_ptr<AnyBackboneOptions> copy() const override { return std::make_unique<BackboneOptionsOf>(*this); }
  std::string summary() const override { return Options::kSummary; }
  std::string source() const override { return Options::kSource; }
  void list(OptionList& list) override { Options::list_options(list); }
  void check_all() const override { Options::check(); }
  std::int64_t outer_width() const override { return Options::width; }
  std::int64_t mlp_units() const override {
    if constexpr (requires(const Options& options) { options.inner_width(); }) return Options::inner_width();
    return 0;
  }
  double dropout_rate() const override {
    if constexpr (requires(const Options& options) { options.dropout; }) return Options::dropout;
    return 0;
  }
  std::shared_ptr<SequenceModel> make_model(std::int64_t max_steps) const override { return Options::make(max_steps); }
};

// A backbone, as a program knows it.
using BackboneEntry = NamedEntry<AnyBackboneOptions>;

template <BackboneOptions Options>
BackboneEntry backbone_entry() {
  return {Options::kName, defaults_of<AnyBackboneOptions, BackboneOptionsOf<Options>>};
}

// Adds a backbone to those that this program knows; not while other threads use the list. Throws UserError if there is
// one of its name.
void add_backbone(BackboneEntry entry);

// Builds the backbone; its weights are drawn from torch's default generator. max_steps >= 1: the longest sequence that
// one row will ever see (episode length + 1), the bound of the Transformer's cache. Calls check() first.
std::shared_ptr<SequenceModel> make_backbone(const BackboneConfig& config, std::int64_t max_steps);

}  // namespace engram
