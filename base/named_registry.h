// NamedRegistry: the names that a program knows of one kind, and the options behind each (base/named_config.h).
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/suggest.h"

namespace engram {

template <class Any>
struct NamedEntry {
  std::string name;
  std::unique_ptr<Any> (*defaults)();
};

template <class Any, class Options>
std::unique_ptr<Any> defaults_of() {
  return std::make_unique<Options>();
}

// Of NamedEntry, or of what has its fields and more.
template <class Entry>
class NamedRegistry {
 public:
  // `kind`: what an entry is, for messages: "task".
  explicit NamedRegistry(std::string kind) : kind_(std::move(kind)) {}

  // Throw UserError if there is one of its name.
  void check_new(const std::string& name) const {
    for (const Entry& entry : entries_)
      if (entry.name == name) throw UserError("there is a " + kind_ + " '" + name + "' already");
  }
  void add(Entry entry) {
    check_new(entry.name);
    entries_.push_back(std::move(entry));
  }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const Entry& entry : entries_) names.push_back(entry.name);
    return names;
  }
  // Throws UserError for an unknown name (naming the nearest).
  auto defaults(const std::string& name) const {
    for (const Entry& entry : entries_)
      if (entry.name == name) return entry.defaults();
    throw UserError(unknown_name(kind_, name, names(), "engram list"));
  }

 private:
  std::string kind_;
  std::vector<Entry> entries_;
};

}  // namespace engram
