// BackboneConfig: a memory backbone chosen by name, with its options. Without LibTorch's headers: registry.h builds it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/named_config.h"
#include "memory/core/backbone_options.h"

namespace engram {

class SequenceModel;

std::vector<std::string> backbone_names();

// The options of a backbone, whichever it is, and what is made of them.
class AnyBackboneOptions : public AnyNamedOptions<AnyBackboneOptions> {
 public:
  static constexpr const char* kSection = kMemorySection;

  virtual std::string summary() const = 0;
  virtual std::string source() const = 0;
  virtual std::int64_t outer_width() const = 0;
  virtual std::int64_t mlp_units() const = 0;
  virtual double dropout_rate() const = 0;
  virtual std::shared_ptr<SequenceModel> make_model(std::int64_t max_steps) const = 0;
};

class BackboneConfig : public NamedConfig<AnyBackboneOptions> {
 public:
  // The backbone with its defaults (those of the RL experiments). Throws UserError for an unknown name.
  explicit BackboneConfig(const std::string& name);

  // What it is in a few words, and where it was published.
  std::string summary() const { return any().summary(); }
  std::string source() const { return any().source(); }
  // D, of input and output alike.
  std::int64_t width() const { return any().outer_width(); }
  // Hidden units of each layer's MLP; 0 for a backbone without the option memory.mlp_width.
  std::int64_t inner_width() const { return any().mlp_units(); }
  // 0 for a backbone without the option memory.dropout.
  double dropout() const { return any().dropout_rate(); }
};

}  // namespace engram
