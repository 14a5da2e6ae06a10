// NamedRegistry: the names that a program knows of one kind, and the options behind each (base/named_config.h).
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text/suggest.h"

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

// The one of `all` that is called `name`; `kind`: what it is, for messages: "task". Throws UserError for an unknown
// name (naming the nearest).
template <class Named>
const Named& find_named(const std::vector<Named>& all, const std::string& kind, const std::string& name) {
  std::vector<std::string> names;
  for (const Named& one : all) {
    if (one.name == name) return one;
    names.push_back(one.name);
  }
  throw UserError(unknown_name(kind, name, names, "engram list"));
}

// Of NamedEntry, or of what has its fields and more.
template <class Entry>
class NamedRegistry {
 public:
  // `kind`: as find_named() has it.
  explicit NamedRegistry(std::string kind) : kind_(std::move(kind)) {}

  // Throws UserError if there is one of its name.
  void add(Entry entry) {
    check_new(entry.name);
    entries_.push_back(std::move(entry));
  }
  // Adds an entry with presets, `own`, to theirs; `owner`: a preset's member that names whose it is. Throws UserError
  // if there is one of the entry's name, or of that of one of the presets.
  template <class Preset>
  void add(Entry entry, std::vector<Preset>& presets, const std::vector<Preset>& own, std::string Preset::*owner) {
    check_new(entry.name);
    for (const Preset& preset : own)
      for (const Preset& known : presets)
        if (known.name == preset.name)
          throw UserError(kind_ + " '" + entry.name + "' has a preset '" + preset.name + "'; " + kind_ + " '" +
                          known.*owner + "' has it already");
    presets.insert(presets.end(), own.begin(), own.end());
    entries_.push_back(std::move(entry));
  }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const Entry& entry : entries_) names.push_back(entry.name);
    return names;
  }
  // Throws UserError for an unknown name (naming the nearest).
  auto defaults(const std::string& name) const { return find_named(entries_, kind_, name).defaults(); }

 private:
  void check_new(const std::string& name) const {
    for (const Entry& entry : entries_)
      if (entry.name == name) throw UserError("there is a " + kind_ + " '" + name + "' already");
  }

  std::string kind_;
  std::vector<Entry> entries_;
};

}  // namespace engram
