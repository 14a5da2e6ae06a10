// ObservationSpec: what an observation of a task is made of, the one definition for environments, networks, traces and
// films.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace engram {

enum class ElementType : std::uint8_t { kUint8, kFloat32 };

// What a part of an observation means to a network.
enum class PartKind : std::uint8_t {
  kImage,   // channels x height x width
  kVector,  // quantities; uint8 stands for 0 to 1 in steps of 1/255, as in an image
  kTokens   // each one of `values` things without an order, 0 .. values - 1
};

struct ObservationPart {
  std::string name;  // letters, digits and "_"; of the weights that read it, where there are several parts
  PartKind kind = PartKind::kVector;
  std::vector<std::int64_t> shape;
  std::int64_t values = 0;  // of kTokens

  std::int64_t elements() const;
  // "image 3x5x5", "vector 4", "tokens 7x7 of 11"
  std::string text() const;
};

// The parts lie one after the other and have the same type of element.
struct ObservationSpec {
  ElementType type = ElementType::kUint8;
  std::vector<ObservationPart> parts;

  std::int64_t elements() const;
  std::int64_t bytes() const { return elements() * (type == ElementType::kUint8 ? 1 : 4); }
  // Of its only part; [elements] of several.
  std::vector<std::int64_t> shape() const;
  // Whether it is an image, and nothing else; or a vector.
  bool is_image() const { return parts.size() == 1 && parts[0].kind == PartKind::kImage; }
  bool is_vector() const { return parts.size() == 1 && parts[0].kind == PartKind::kVector; }
  // "image 3x5x5", "image 3x7x7 + tokens 1 of 4"
  std::string text() const;
};

// The only part of an observation: an image where the shape has three dimensions, otherwise a vector.
std::vector<ObservationPart> single_part(std::vector<std::int64_t> shape);

}  // namespace engram
