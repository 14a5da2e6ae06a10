// BackboneConfig: a memory backbone chosen by name, with its options. The list of all backbones is in all_backbones.h;
// a program of one's own adds its backbones to them by add_backbone.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/options.h"
#include "memory/backbone_options.h"
#include "memory/sequence_model.h"

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

// The options of a backbone, whichever it is, and what is made of them.
class AnyBackboneOptions {
 public:
  virtual ~AnyBackboneOptions() = default;
  virtual std::unique_ptr<AnyBackboneOptions> copy() const = 0;
  virtual std::string summary() const = 0;
  virtual std::string source() const = 0;
  // They stay bound to this object.
  virtual void list(OptionList& list) = 0;
  virtual void check_all() const = 0;
  virtual std::int64_t outer_width() const = 0;
  virtual std::int64_t mlp_units() const = 0;
  virtual double dropout_rate() const = 0;
  virtual std::shared_ptr<SequenceModel> make_model(std::int64_t max_steps) const = 0;
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
struct BackboneEntry {
  std::string name;
  std::unique_ptr<AnyBackboneOptions> (*defaults)();
};

template <BackboneOptions Options>
BackboneEntry backbone_entry() {
  return {Options::kName,
          []() -> std::unique_ptr<AnyBackboneOptions> { return std::make_unique<BackboneOptionsOf<Options>>(); }};
}

// Adds a backbone to those that this program knows; not while other threads use the list. Throws UserError if there is
// one of its name.
void add_backbone(BackboneEntry entry);

std::vector<std::string> backbone_names();

class BackboneConfig {
 public:
  // The backbone with its defaults (those of the RL experiments). Throws UserError for an unknown name.
  explicit BackboneConfig(const std::string& name);

  BackboneConfig(const BackboneConfig& other) : name_(other.name_), options_(other.options_->copy()) {}
  BackboneConfig(BackboneConfig&&) = default;
  BackboneConfig& operator=(BackboneConfig other) {
    name_ = std::move(other.name_);
    options_ = std::move(other.options_);
    return *this;
  }

  const std::string& name() const { return name_; }
  // What it is in a few words, and where it was published.
  std::string summary() const { return options_->summary(); }
  std::string source() const { return options_->source(); }
  // Options under the section "memory", bound to this object.
  OptionList options();
  // Throws UserError if values contradict each other ("memory.width 30 is not divisible by memory.heads 4").
  void check() const { options_->check_all(); }
  // D, of input and output alike.
  std::int64_t width() const { return options_->outer_width(); }
  // Hidden units of each layer's MLP; 0 for a backbone without the option memory.mlp_width.
  std::int64_t inner_width() const { return options_->mlp_units(); }
  // 0 for a backbone without the option memory.dropout.
  double dropout() const { return options_->dropout_rate(); }

  // As these, where they are these or derived from them (HqltOptions, FastWeightsOptions ...); otherwise null.
  template <class Options>
  const Options* as() const {
    return dynamic_cast<const Options*>(options_.get());
  }
  const AnyBackboneOptions& backbone_options() const { return *options_; }

 private:
  std::string name_;
  std::unique_ptr<AnyBackboneOptions> options_;
};

// Builds the backbone; its weights are drawn from torch's default generator. max_steps >= 1: the longest sequence that
// one row will ever see (episode length + 1), the bound of the Transformer's cache. Calls check() first.
std::shared_ptr<SequenceModel> make_backbone(const BackboneConfig& config, std::int64_t max_steps);

}  // namespace engram
