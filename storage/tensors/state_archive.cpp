#include "storage/tensors/state_archive.h"

#include <charconv>
#include <sstream>
#include <utility>

#include "base/error.h"

namespace engram {
namespace {

std::string type_text(const torch::Tensor& tensor) {
  std::string text = torch::toString(tensor.scalar_type());
  for (const std::int64_t size : tensor.sizes()) text += " x " + std::to_string(size);
  return text;
}

}  // namespace

StateArchive::StateArchive(SafetensorsFile file, std::string where) : restoring_(true), where_(std::move(where)) {
  take_over(std::move(file));
}

std::map<std::string, std::string> StateArchive::saved_metadata() const {
  std::map<std::string, std::string> metadata;
  for (const auto& [name, text] : values_) metadata[kValuePrefix + name] = text;
  return metadata;
}

std::string StateArchive::bytes() const {
  std::ostringstream stream;
  write_safetensors(stream, tensors_, saved_metadata());
  return std::move(stream).str();
}

void StateArchive::take_over(SafetensorsFile file) {
  const std::string prefix = kValuePrefix;
  for (const auto& [key, text] : file.metadata)
    if (key.starts_with(prefix)) values_[key.substr(prefix.size())] = text;
  tensors_.merge(file.tensors);
}

void StateArchive::skip(const std::string& section) {
  const auto inside = [name = prefix_ + section + "."](const auto& entry) { return entry.first.starts_with(name); };
  std::erase_if(values_, inside);
  std::erase_if(tensors_, inside);
}

void StateArchive::refuse(const std::string& name, const std::string& why) const {
  throw UserError(where_ + " cannot be gone on from: '" + prefix_ + name + "': " + why);
}

void StateArchive::check_all_restored() const {
  if (!values_.empty()) throw UserError(where_ + ": '" + values_.begin()->first + "' is unknown to this version");
  if (!tensors_.empty())
    throw UserError(where_ + ": tensor '" + tensors_.begin()->first + "' is unknown to this version");
}

void StateArchive::value(const std::string& name, std::string& text) {
  if (!restoring_) {
    values_[prefix_ + name] = text;
    return;
  }
  const auto found = values_.extract(prefix_ + name);
  if (found.empty()) refuse(name, "it is missing");
  text = found.mapped();
}

// The shortest text that reads back to the same number.
void StateArchive::value(const std::string& name, double& number) {
  char buffer[64];
  std::string text(buffer, std::to_chars(buffer, buffer + sizeof buffer, number).ptr);
  value(name, text);
  if (!restoring_) return;
  double parsed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
  if (error != std::errc{} || end != text.data() + text.size()) refuse(name, "'" + text + "' is not a number");
  number = parsed;
}

torch::Tensor StateArchive::restored_tensor(const std::string& name, torch::ScalarType type) {
  const auto found = tensors_.extract(prefix_ + name);
  if (found.empty()) refuse(name, "it is missing");
  if (found.mapped().scalar_type() != type)
    refuse(name,
           std::string("it is ") + torch::toString(found.mapped().scalar_type()) + ", not " + torch::toString(type));
  return found.mapped();
}

void StateArchive::tensor(const std::string& name, torch::Tensor& tensor) {
  if (!restoring_) {
    tensors_[prefix_ + name] = tensor.detach();
    return;
  }
  const torch::Tensor saved = restored_tensor(name, tensor.scalar_type());
  if (saved.sizes() != tensor.sizes()) refuse(name, "it is " + type_text(saved) + ", not " + type_text(tensor));
  const torch::NoGradGuard no_grad;
  tensor.copy_(saved);
}

}  // namespace engram
