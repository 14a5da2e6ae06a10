// Tensors on disk: safetensors files (an 8-byte little-endian header length, a JSON header, raw little-endian
// tensors). Reading trusts nothing: every length, shape, dtype and offset is checked against the file, and nothing is
// allocated that the file does not fill.
//
// Files of engram carry in their metadata "engram" (the version that wrote them) and "xxh3_128": the digest of the
// whole file, header and tensors, with the digest's own 32 digits taken as '0'.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <istream>
#include <map>
#include <ostream>
#include <string>

namespace engram {

using TensorMap = std::map<std::string, torch::Tensor>;

// Writes through replace_file(), with its guarantees and errors. Takes CPU or GPU tensors of float64, float32, int64,
// int32 or uint8; those on a GPU or not contiguous are copied, one at a time. "engram" and "xxh3_128" are added to the
// metadata.
void save_safetensors(const std::filesystem::path& file, const TensorMap& tensors,
                      const std::map<std::string, std::string>& metadata);
// The same contents into a stream, which must take a seek back to the header.
void write_safetensors(std::ostream& stream, const TensorMap& tensors,
                       const std::map<std::string, std::string>& metadata);

struct SafetensorsFile {
  TensorMap tensors;  // on the CPU
  std::map<std::string, std::string> metadata;
  bool digest_checked = false;  // false: a file of another program, without a digest
};
// Tensors of bfloat16 and float16, which other programs write, become float32, exactly. Throws UserError for a missing
// or damaged file, saying what is wrong with it, and for a whole one with tensors of other types, naming the first. A
// file with "engram" in its metadata must have a digest, and a digest must match. `what` is what messages call it.
SafetensorsFile load_safetensors(const std::filesystem::path& file, const std::string& what = "weights file");

// The same from a stream that holds `bytes` bytes; `where` names it in messages.
SafetensorsFile read_safetensors(std::istream& stream, std::uint64_t bytes, const std::string& where);

}  // namespace engram
