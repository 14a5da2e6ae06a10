// BackboneConfig: a memory backbone chosen by name, with its options. Without LibTorch's headers: registry.h builds it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/options.h"

namespace engram {

class SequenceModel;

std::vector<std::string> backbone_names();

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
  std::vector<OptionValue> values() const { return BackboneConfig(*this).options().values(); }
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

}  // namespace engram
