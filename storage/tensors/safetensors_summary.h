// What a safetensors file holds, without its tensors: for files that are looked at, not used. Lives in safetensors.cpp,
// where the format is read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <istream>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace engram {

struct SafetensorsSummary {
  struct Tensor {
    std::string name, dtype;  // as the header has them
    std::vector<std::int64_t> shape;
    std::uint64_t bytes;
  };
  std::vector<Tensor> tensors;  // as they lie in the file
  std::map<std::string, std::string> metadata;
  bool digest_checked = false;
  std::uint64_t bytes = 0;  // of the file
};
// Refuses what is damaged for load_safetensors(), and takes every type of the format. Holds a megabyte of tensors at a
// time.
SafetensorsSummary summarize_safetensors(const std::filesystem::path& file, const std::string& what = "file");

// The same from a stream that holds `bytes` bytes; `where` names it in messages.
SafetensorsSummary summarize_safetensors(std::istream& stream, std::uint64_t bytes, const std::string& where);

// A whole number >= 0 in the metadata; none where it is anything else.
std::optional<std::int64_t> count_entry(const SafetensorsSummary& contents, const std::string& key);

}  // namespace engram
