#include "base/observation_spec.h"

#include <utility>

namespace engram {

std::int64_t ObservationPart::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t size : shape) product *= size;
  return product;
}

std::string ObservationPart::text() const {
  std::string sizes;
  for (const std::int64_t size : shape) sizes.append(sizes.empty() ? "" : "x").append(std::to_string(size));
  const char* const name = kind == PartKind::kImage ? "image " : kind == PartKind::kVector ? "vector " : "tokens ";
  return name + sizes + (kind == PartKind::kTokens ? " of " + std::to_string(values) : "");
}

std::int64_t ObservationSpec::elements() const {
  std::int64_t sum = 0;
  for (const ObservationPart& part : parts) sum += part.elements();
  return sum;
}

std::vector<std::int64_t> ObservationSpec::shape() const {
  if (parts.size() == 1) return parts[0].shape;
  return {elements()};
}

std::string ObservationSpec::text() const {
  std::string text;
  for (const ObservationPart& part : parts) text += (text.empty() ? "" : " + ") + part.text();
  return text;
}

std::vector<ObservationPart> single_part(std::vector<std::int64_t> shape) {
  return {{"observation", shape.size() == 3 ? PartKind::kImage : PartKind::kVector, std::move(shape)}};
}

}  // namespace engram
