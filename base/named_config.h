// NamedConfig: what is chosen by its name, with the options that go with the name: a task, a backbone, a learner.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/options.h"

namespace engram {

// Options, whichever they are. `Any`, derived from this, adds what is made of them, and kSection, their section.
template <class Any>
class AnyNamedOptions {
 public:
  virtual ~AnyNamedOptions() = default;
  virtual std::unique_ptr<Any> copy() const = 0;
  // They stay bound to this object.
  virtual void list(OptionList& list) = 0;
  // Throws UserError if a value is out of bounds or values contradict each other.
  virtual void check_all() const = 0;
};

template <class Any>
class NamedConfig {
 public:
  NamedConfig(std::string name, std::unique_ptr<Any> options) : name_(std::move(name)), options_(std::move(options)) {}
  NamedConfig(const NamedConfig& other) : name_(other.name_), options_(other.options_->copy()) {}
  NamedConfig(NamedConfig&&) = default;
  NamedConfig& operator=(NamedConfig other) {
    name_ = std::move(other.name_);
    options_ = std::move(other.options_);
    return *this;
  }

  const std::string& name() const { return name_; }
  // Options under their section, bound to this object.
  OptionList options() {
    OptionList list(Any::kSection);
    options_->list(list);
    return list;
  }
  std::vector<OptionValue> values() const { return NamedConfig(*this).options().values(); }
  // Throws UserError if a value is out of bounds or values contradict each other ("memory.width 30 is not divisible by
  // memory.heads 4").
  void check() const { options_->check_all(); }
  const Any& any() const { return *options_; }
  // As these, where they are these or derived from them; otherwise null.
  template <class Options>
  const Options* as() const {
    return dynamic_cast<const Options*>(options_.get());
  }

 private:
  std::string name_;
  std::unique_ptr<Any> options_;
};

}  // namespace engram
