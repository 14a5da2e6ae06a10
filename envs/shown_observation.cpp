#include "envs/shown_observation.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

namespace engram {
namespace {

constexpr std::size_t kLongVector = 16;  // from here on what is 0 is not listed

std::string number_text(float number) {
  std::ostringstream text;
  text << number;
  return text.str();
}

std::vector<float> elements_of(const ObservationSpec& spec, std::span<const std::byte> observation) {
  std::vector<float> elements(static_cast<std::size_t>(spec.elements()));
  if (spec.type == ElementType::kFloat32)
    std::memcpy(elements.data(), observation.data(), observation.size());
  else
    std::ranges::transform(observation, elements.begin(),
                           [](std::byte value) { return static_cast<float>(std::to_integer<int>(value)); });
  return elements;
}

// Of a one-hot code its value; otherwise the numbers.
std::string part_text(const VectorPart& part, std::span<const float> elements) {
  const auto ones = std::ranges::count(elements, 1.0f), zeros = std::ranges::count(elements, 0.0f);
  if (!part.values.empty() && ones + zeros == part.size && ones <= 1)
    return ones == 0 ? "none"
                     : part.values[static_cast<std::size_t>(std::ranges::find(elements, 1.0f) - elements.begin())];
  std::string text;
  for (const float element : elements) text.append(text.empty() ? "" : " ").append(number_text(element));
  return text;
}

std::vector<std::string> vector_lines(const std::vector<VectorPart>& parts, std::span<const float> elements) {
  std::vector<std::string> lines;
  std::size_t at = 0;
  for (const VectorPart& part : parts) {
    const auto size = static_cast<std::size_t>(part.size);
    if (size > 0) lines.push_back(part.name + ": " + part_text(part, elements.subspan(at, size)));
    at += size;
  }
  if (at == elements.size()) return lines;
  if (at != 0) throw std::logic_error("the parts of an observation are not all of it");
  std::string text;
  for (std::size_t i = 0; i < elements.size(); ++i)
    if (elements.size() < kLongVector || elements[i] != 0)
      text += (text.empty() ? "x" : "  x") + std::to_string(i) + " " + number_text(elements[i]);
  if (elements.size() >= kLongVector)
    text += (text.empty() ? "all" : "; all others") + std::string(" of x0 to x") + std::to_string(elements.size() - 1) +
            " are 0";
  return {text};
}

}  // namespace

ShownObservation show_observation(const TaskConfig& task, std::span<const std::byte> observation) {
  const std::int64_t bytes = task.info().observation.bytes();
  if (observation.size() != static_cast<std::size_t>(bytes))
    throw std::invalid_argument("show_observation: " + std::to_string(observation.size()) + " bytes instead of " +
                                std::to_string(bytes));
  return task.any().show(observation);
}

ShownObservation show_plainly(const ObservationSpec& spec, const std::vector<VectorPart>& parts,
                              std::span<const std::byte> observation) {
  if (auto image = first_image(spec, observation)) return {std::move(image), {}};
  return {{}, vector_lines(parts, elements_of(spec, observation))};
}

std::optional<Canvas> first_image(const ObservationSpec& spec, std::span<const std::byte> observation) {
  if (spec.type != ElementType::kUint8) return {};
  std::size_t first = 0;
  for (const ObservationPart& part : spec.parts) {
    if (part.kind != PartKind::kImage || (part.shape[0] != 1 && part.shape[0] != 3)) {
      first += static_cast<std::size_t>(part.elements());
      continue;
    }
    const auto height = static_cast<int>(part.shape[1]), width = static_cast<int>(part.shape[2]);
    const std::size_t plane = static_cast<std::size_t>(height) * static_cast<std::size_t>(width);
    Canvas image;
    image.resize(height, width, {});
    for (std::size_t at = 0; at < plane; ++at) {
      const auto channel = [&](std::size_t c) {
        return std::to_integer<std::uint8_t>(observation[first + (part.shape[0] == 3 ? c * plane : 0) + at]);
      };
      image.set(static_cast<int>(at) / width, static_cast<int>(at) % width, {channel(0), channel(1), channel(2)});
    }
    return image;
  }
  return {};
}

}  // namespace engram
