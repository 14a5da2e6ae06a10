// StateArchive: what a run's next step depends on, by name. A class that has such state lists it once, in
//
//   void visit_state(StateArchive& archive) {
//     archive.value("steps", steps_);
//     archive.tensor("mean", mean_);
//     archive.within("replay", [&] { buffer_.visit_state(archive); });
//   }
//
// which both saves and restores; an archive does one of the two. What is restored may come from a damaged or hostile
// file: the archive checks names, types and shapes, and the class that lists a number checks what it means.
#pragma once

#include <torch/torch.h>

#include <concepts>
#include <cstdint>
#include <cstring>
#include <exception>
#include <limits>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "storage/tensors/weights.h"

namespace engram {

class StateArchive {
 public:
  // Saves.
  StateArchive() = default;
  // Restores from a file's contents; `where` names the file in messages. The file may hold other metadata.
  StateArchive(SafetensorsFile file, std::string where);

  bool restoring() const { return restoring_; }

  // All throw UserError, naming the entry, where the entry to be restored is missing or not what it should be.

  void value(const std::string& name, std::string& text);
  template <std::integral Integer>
  void value(const std::string& name, Integer& number);
  void value(const std::string& name, double& number);

  // Restores in place: the tensor keeps its shape, dtype, device and address. Saving keeps a reference, no copy.
  void tensor(const std::string& name, torch::Tensor& tensor);
  // A list of any length, which the caller checks; T is a number or another trivially copyable type.
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void array(const std::string& name, std::vector<T>& values);
  // One such value.
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void object(const std::string& name, T& value) {
    std::vector<T> values(1, value);
    array(name, values);
    if (values.size() != 1) refuse(name, "it has a length that it cannot have");
    value = values.front();
  }

  // Restoring: whether the file has an entry of this name that was not restored yet; for what older versions did not
  // save.
  bool holds(const std::string& name) const {
    return values_.contains(prefix_ + name) || tensors_.contains(prefix_ + name);
  }

  // Names inside of `list` begin with "section.".
  template <class List>
  void within(const std::string& section, List list) {
    const std::string outer = prefix_;
    prefix_ += section + ".";
    list();
    prefix_ = outer;
  }

  // What was saved as the bytes of a safetensors file.
  std::string bytes() const;
  // Adds the entries of a file to those of this archive.
  void take_over(SafetensorsFile file);
  // Restoring: leaves the entries of a section alone.
  void skip(const std::string& section);

  // Restoring: throws UserError about an entry.
  [[noreturn]] void refuse(const std::string& name, const std::string& why) const;
  // Restoring: throws UserError unless everything in the file was asked for.
  void check_all_restored() const;

  // The entries that were saved.
  const TensorMap& saved_tensors() const { return tensors_; }
  // The values among them, as a file's metadata.
  std::map<std::string, std::string> saved_metadata() const;

  // Metadata keys of values begin with this.
  static constexpr const char* kValuePrefix = "state.";

 private:
  torch::Tensor restored_tensor(const std::string& name, torch::ScalarType type);

  template <class T>
  static constexpr torch::ScalarType element_type();

  bool restoring_ = false;
  std::string where_, prefix_;
  TensorMap tensors_;
  std::map<std::string, std::string> values_;  // by full name
};

template <std::integral Integer>
void StateArchive::value(const std::string& name, Integer& number) {
  std::string text = std::to_string(number);
  value(name, text);
  if (!restoring_) return;
  constexpr auto kLow = static_cast<std::int64_t>(std::numeric_limits<Integer>::min());
  constexpr auto kHigh = static_cast<std::int64_t>(std::numeric_limits<Integer>::max());
  static_assert(sizeof(Integer) < sizeof(std::int64_t) || std::is_signed_v<Integer>);
  const auto parsed = [&]() -> std::int64_t {
    try {
      std::size_t end = 0;
      const std::int64_t result = std::stoll(text, &end);
      if (end == text.size() && std::to_string(result) == text && result >= kLow && result <= kHigh) return result;
    } catch (const std::exception&) {
    }
    refuse(name, "'" + text + "' is not a number that it can be");
  }();
  number = static_cast<Integer>(parsed);
}

template <class T>
constexpr torch::ScalarType StateArchive::element_type() {
  if constexpr (std::is_same_v<T, float>) return torch::kFloat32;
  if constexpr (std::is_same_v<T, double>) return torch::kFloat64;
  if constexpr (std::is_same_v<T, std::int32_t>) return torch::kInt32;
  if constexpr (std::is_same_v<T, std::int64_t>) return torch::kInt64;
  return torch::kUInt8;
}

template <class T>
requires std::is_trivially_copyable_v<T>
void StateArchive::array(const std::string& name, std::vector<T>& values) {
  constexpr torch::ScalarType kType = element_type<T>();
  const auto size = static_cast<std::int64_t>(torch::elementSize(kType));
  const auto bytes = static_cast<std::int64_t>(sizeof(T));
  if (!restoring_) {
    const auto count = static_cast<std::int64_t>(values.size()) * bytes / size;
    tensors_[prefix_ + name] = torch::from_blob(values.data(), {count}, kType).clone();
    return;
  }
  const torch::Tensor tensor = restored_tensor(name, kType);
  if (tensor.dim() != 1 || tensor.numel() * size % bytes != 0) refuse(name, "it has a length that it cannot have");
  values.resize(static_cast<std::size_t>(tensor.numel() * size / bytes));
  if (values.empty()) return;  // memcpy takes no null
  std::memcpy(values.data(), tensor.const_data_ptr(), static_cast<std::size_t>(tensor.numel() * size));
}

}  // namespace engram
