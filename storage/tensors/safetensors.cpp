#include "storage/tensors/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text/json_text.h"
#include "storage/build_info.h"
#include "storage/files.h"
#include "storage/tensors/digest.h"
#include "storage/tensors/safetensors_summary.h"

namespace engram {
namespace {

using Json = nlohmann::ordered_json;
static_assert(std::endian::native == std::endian::little, "tensors are written as they lie in memory");

// The types that the format has (safetensors 0.8, tensor.rs).
struct Dtype {
  const char* name;
  std::uint64_t bits;                                     // of an element
  torch::ScalarType type = torch::ScalarType::Undefined;  // as it lies in the file; Undefined: described, not loaded
};
constexpr std::array<Dtype, 22> kDtypes = {{{"F64", 64, torch::kFloat64},
                                            {"F32", 32, torch::kFloat32},
                                            {"I64", 64, torch::kInt64},
                                            {"I32", 32, torch::kInt32},
                                            {"U8", 8, torch::kUInt8},
                                            {"BF16", 16, torch::kBFloat16},
                                            {"F16", 16, torch::kFloat16},
                                            {"BOOL", 8},
                                            {"I8", 8},
                                            {"I16", 16},
                                            {"U16", 16},
                                            {"U32", 32},
                                            {"U64", 64},
                                            {"C64", 64},
                                            {"F8_E4M3", 8},
                                            {"F8_E5M2", 8},
                                            {"F8_E8M0", 8},
                                            {"F8_E4M3FNUZ", 8},
                                            {"F8_E5M2FNUZ", 8},
                                            {"F6_E2M3", 6},
                                            {"F6_E3M2", 6},
                                            {"F4", 4}}};
// Of other programs, whose narrower numbers float32 holds exactly; engram computes in none of them on the host.
constexpr bool becomes_float32(torch::ScalarType type) { return type == torch::kBFloat16 || type == torch::kFloat16; }
constexpr const char* kMetadataKey = "__metadata__";
constexpr const char* kWriterKey = "engram";
constexpr const char* kDigestKey = "xxh3_128";
// As it stands in a header that engram wrote. Inside a JSON string its quotes would be escaped: it can only be the key.
constexpr std::string_view kDigestText = "\"xxh3_128\":\"";
constexpr std::uint64_t kChunkBytes = 1 << 20;          // read or written, and digested while it is in the cache
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // as the official reader has it
constexpr int kMaxDimensions = 16;

std::string dtype_name(torch::ScalarType type) {
  for (const Dtype& dtype : kDtypes)
    if (type != torch::ScalarType::Undefined && dtype.type == type && !becomes_float32(type)) return dtype.name;
  throw std::invalid_argument(std::string("save_safetensors: unsupported type ") + torch::toString(type));
}

// A damaged file, and a whole one of types that are not loaded; load_safetensors() puts the file's name before the
// reason.
struct Damage : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct OtherTypes : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Entry {
  std::string name;
  Dtype dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t begin, end;  // of its bytes, counted from the end of the header
};

std::uint64_t read_unsigned(const Json& value, const std::string& what) {
  if (!value.is_number_unsigned()) throw Damage(what + " is not a whole number >= 0");
  return value.get<std::uint64_t>();
}

// Parses JSON that may be anything: bounded in depth, and without keys given twice.
Json parse_header(const std::string& text) {
  std::vector<std::set<std::string>> keys;
  const auto check = [&keys](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > 3) throw Damage("its header is nested too deeply");
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second)
      throw Damage("its header names '" + parsed.get<std::string>() + "' twice");
    return true;
  };
  try {
    return Json::parse(text, check);
  } catch (const Json::exception&) {
    throw Damage("its header is not valid JSON");
  }
}

// The number of bytes of a tensor; throws where it does not fit or a stride would overflow.
std::uint64_t checked_bytes(const Entry& entry) {
  constexpr std::uint64_t kLimit = std::uint64_t{1} << 62, kBitsOfByte = 8;
  std::uint64_t bits = entry.dtype.bits;
  bool empty = false;
  for (const std::int64_t size : entry.shape) {
    empty = empty || size == 0;
    const std::uint64_t factor = std::max<std::uint64_t>(static_cast<std::uint64_t>(size), 1);
    if (factor > kLimit / bits) throw Damage("tensor '" + entry.name + "' is too large");
    bits *= factor;
  }
  if (empty) return 0;
  if (bits % kBitsOfByte != 0) throw Damage("tensor '" + entry.name + "' ends within a byte");
  return bits / kBitsOfByte;
}

Entry parse_entry(const std::string& name, const Json& value) {
  const std::string what = "tensor '" + name + "'";
  if (!value.is_object() || value.size() != 3 || !value.contains("dtype") || !value.contains("shape") ||
      !value.contains("data_offsets"))
    throw Damage(what + " is not described by dtype, shape and data_offsets");
  const Json& dtype = value["dtype"];
  const Json& shape = value["shape"];
  const Json& offsets = value["data_offsets"];
  const auto found = std::find_if(kDtypes.begin(), kDtypes.end(),
                                  [&dtype](const Dtype& known) { return dtype.is_string() && dtype == known.name; });
  if (found == kDtypes.end()) throw Damage(what + " has the unknown dtype " + json_text(dtype));
  if (!shape.is_array() || shape.size() > kMaxDimensions) throw Damage(what + " has a malformed shape");
  if (!offsets.is_array() || offsets.size() != 2) throw Damage(what + " has malformed data_offsets");
  Entry entry{name, *found, {}, 0, 0};
  for (const Json& size : shape) {
    const std::uint64_t number = read_unsigned(size, what + ": a size");
    if (number > std::numeric_limits<std::int64_t>::max()) throw Damage(what + " is too large");
    entry.shape.push_back(static_cast<std::int64_t>(number));
  }
  entry.begin = read_unsigned(offsets[0], what + ": an offset");
  entry.end = read_unsigned(offsets[1], what + ": an offset");
  if (entry.begin > entry.end || entry.end - entry.begin != checked_bytes(entry))
    throw Damage(what + ": data_offsets do not fit its shape");
  return entry;
}

// Returns where the digest's digits stand in the header and sets them to '0' there; nothing for a file of another
// program, which has none.
std::optional<std::string> take_digest(std::string& header, const std::map<std::string, std::string>& metadata) {
  const auto found = metadata.find(kDigestKey);
  if (found == metadata.end()) {
    if (metadata.contains(kWriterKey)) throw Damage("its digest is missing");
    return std::nullopt;
  }
  const std::string digest = found->second;
  const std::size_t position = header.find(std::string(kDigestText) + digest + "\"");
  if (digest.size() != Digest::kDigits || position == std::string::npos) throw Damage("its digest is malformed");
  header.replace(position + kDigestText.size(), Digest::kDigits, Digest::kDigits, '0');
  return digest;
}

std::map<std::string, std::string> parse_metadata(const Json& value) {
  if (!value.is_object()) throw Damage("its metadata is not an object");
  std::map<std::string, std::string> metadata;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) throw Damage("its metadata holds something else than text");
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

// Reads exactly `count` bytes, in chunks, into `bytes` and the digest.
void read_bytes(std::istream& stream, char* bytes, std::uint64_t count, Digest& digest) {
  for (std::uint64_t done = 0; done < count;) {
    const std::uint64_t chunk = std::min(kChunkBytes, count - done);
    stream.read(bytes + done, static_cast<std::streamsize>(chunk));
    if (!stream) throw Damage("it cannot be read to its end");
    digest.update(bytes + done, chunk);
    done += chunk;
  }
}

// Everything before the tensors.
struct Header {
  std::uint64_t bytes;
  std::string text;            // the digest's digits as '0'
  std::vector<Entry> entries;  // in the order of their bytes
  std::map<std::string, std::string> metadata;
  std::optional<std::string> digest;
};

Header read_header(std::istream& stream, std::uint64_t file_bytes) {
  Header header{};
  if (file_bytes < sizeof(header.bytes)) throw Damage("it is shorter than a header");
  stream.read(reinterpret_cast<char*>(&header.bytes), sizeof(header.bytes));
  if (header.bytes > kMaxHeaderBytes || header.bytes > file_bytes - sizeof(header.bytes))
    throw Damage("its header is longer than the file");
  header.text.resize(header.bytes);
  stream.read(header.text.data(), static_cast<std::streamsize>(header.bytes));
  if (!stream) throw Damage("it cannot be read to its end");
  if (header.text.empty() || header.text.front() != '{') throw Damage("its header is not a JSON object");
  const Json json = parse_header(header.text);

  for (const auto& [name, value] : json.items()) {
    if (name == kMetadataKey)
      header.metadata = parse_metadata(value);
    else
      header.entries.push_back(parse_entry(name, value));
  }
  header.digest = take_digest(header.text, header.metadata);

  // The tensors must fill the rest of the file after the header, without gap or overlap.
  std::sort(header.entries.begin(), header.entries.end(),
            [](const Entry& a, const Entry& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  std::uint64_t position = 0;
  for (const Entry& entry : header.entries) {
    if (entry.begin != position)
      throw Damage("tensor '" + entry.name + "' does not begin where the one before it ends");
    position = entry.end;
  }
  if (position != file_bytes - sizeof(header.bytes) - header.bytes)
    throw Damage("its tensors do not end where the file ends");
  return header;
}

// Takes the tensors' bytes, in order, as `read_tensor` gives them to the digest.
template <class ReadTensor>
void check_digest(const Header& header, const ReadTensor& read_tensor) {
  Digest digest;
  digest.update(&header.bytes, sizeof(header.bytes));
  digest.update(header.text.data(), header.text.size());
  for (const Entry& entry : header.entries) read_tensor(entry, digest);
  if (header.digest && digest.hex() != *header.digest) throw Damage("its digest does not match");
}

// The same of tensors that are not wanted, a megabyte at a time.
void pass_over(std::istream& stream, const Header& header) {
  std::vector<char> chunk(kChunkBytes);
  check_digest(header, [&](const Entry& entry, Digest& digest) {
    for (std::uint64_t left = entry.end - entry.begin, count = 0; left > 0; left -= count) {
      count = std::min(kChunkBytes, left);
      read_bytes(stream, chunk.data(), count, digest);
    }
  });
}

[[noreturn]] void refuse_type(const Entry& entry) {
  std::string loaded;
  for (const Dtype& dtype : kDtypes)
    if (dtype.type != torch::ScalarType::Undefined) loaded += (loaded.empty() ? "" : ", ") + std::string(dtype.name);
  throw OtherTypes("tensor '" + entry.name + "' has the type " + entry.dtype.name + ", and engram loads " + loaded);
}

SafetensorsFile parse(std::istream& stream, std::uint64_t file_bytes) {
  Header header = read_header(stream, file_bytes);
  for (const Entry& entry : header.entries) {
    if (entry.dtype.type != torch::ScalarType::Undefined) continue;
    if (header.digest) pass_over(stream, header);  // a damaged file says so first
    refuse_type(entry);
  }
  SafetensorsFile file;
  check_digest(header, [&](const Entry& entry, Digest& digest) {
    const torch::Tensor tensor = torch::empty(entry.shape, entry.dtype.type);
    read_bytes(stream, static_cast<char*>(tensor.data_ptr()), entry.end - entry.begin, digest);
    file.tensors[entry.name] = becomes_float32(entry.dtype.type) ? tensor.to(torch::kFloat32) : tensor;
  });
  file.metadata = std::move(header.metadata);
  file.digest_checked = header.digest.has_value();
  return file;
}

SafetensorsSummary read_summary(std::istream& stream, std::uint64_t file_bytes) {
  Header header = read_header(stream, file_bytes);
  if (header.digest) pass_over(stream, header);
  SafetensorsSummary summary;
  for (const Entry& entry : header.entries)
    summary.tensors.push_back({entry.name, entry.dtype.name, entry.shape, entry.end - entry.begin});
  summary.metadata = std::move(header.metadata);
  summary.digest_checked = header.digest.has_value();
  summary.bytes = file_bytes;
  return summary;
}

// Returns what `read` makes of a stream. Where something is wrong, the message begins with its name, `where`.
template <class Read>
auto read_stream(std::istream& stream, std::uint64_t bytes, const std::string& where, const Read& read) {
  try {
    return read(stream, bytes);
  } catch (const Damage& damage) {
    throw UserError(where + " is damaged: " + damage.what());
  } catch (const OtherTypes& types) {
    throw UserError(where + ": " + types.what());
  }
}

// The same for a regular file.
template <class Read>
auto read_file(const std::filesystem::path& file, const std::string& where, const Read& read) {
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  if (status.type() == std::filesystem::file_type::not_found) throw UserError(where + " does not exist");
  if (error) throw UserError(where + " cannot be read: " + error.message());
  if (!std::filesystem::is_regular_file(status)) throw UserError(where + " is not a file");
  std::ifstream stream(file, std::ios::binary);
  const std::uint64_t bytes = std::filesystem::file_size(file, error);
  if (!stream || error) throw UserError(where + " cannot be read");
  return read_stream(stream, bytes, where, read);
}

}  // namespace

void write_safetensors(std::ostream& stream, const TensorMap& tensors,
                       const std::map<std::string, std::string>& metadata) {
  // Putting wide elements first keeps every tensor aligned to its element.
  std::vector<std::pair<std::string, torch::Tensor>> ordered(tensors.begin(), tensors.end());
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const auto& a, const auto& b) { return a.second.element_size() > b.second.element_size(); });

  Json header = Json::object();
  header[kMetadataKey] = metadata;
  if (!metadata.contains(kWriterKey)) header[kMetadataKey][kWriterKey] = build_info().version;
  header[kMetadataKey][kDigestKey] = std::string(Digest::kDigits, '0');
  std::uint64_t position = 0;
  for (const auto& [name, tensor] : ordered) {
    const std::uint64_t end = position + tensor.nbytes();
    header[name] = {{"dtype", dtype_name(tensor.scalar_type())},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {position, end}}};
    position = end;
  }
  std::string text = json_text(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t header_bytes = text.size();

  Digest digest;
  const auto write = [&](const void* data, std::uint64_t count) {
    const char* const bytes = static_cast<const char*>(data);
    for (std::uint64_t done = 0; done < count; done += kChunkBytes) {
      const std::uint64_t chunk = std::min(kChunkBytes, count - done);
      digest.update(bytes + done, chunk);
      stream.write(bytes + done, static_cast<std::streamsize>(chunk));
    }
  };
  write(&header_bytes, sizeof(header_bytes));
  write(text.data(), text.size());
  for (const auto& [name, tensor] : ordered) {
    const torch::Tensor plain = tensor.detach().cpu().contiguous();
    write(plain.const_data_ptr(), plain.nbytes());
  }
  stream.seekp(static_cast<std::streamoff>(sizeof(header_bytes) + text.find(kDigestText) + kDigestText.size()));
  stream << digest.hex();
}

void save_safetensors(const std::filesystem::path& file, const TensorMap& tensors,
                      const std::map<std::string, std::string>& metadata) {
  replace_file(file, [&](std::ostream& stream) { write_safetensors(stream, tensors, metadata); });
}

SafetensorsFile read_safetensors(std::istream& stream, std::uint64_t bytes, const std::string& where) {
  return read_stream(stream, bytes, where, parse);
}

SafetensorsFile load_safetensors(const std::filesystem::path& file, const std::string& what) {
  return read_file(file, what + " '" + file.string() + "'", parse);
}

SafetensorsSummary summarize_safetensors(std::istream& stream, std::uint64_t bytes, const std::string& where) {
  return read_stream(stream, bytes, where, read_summary);
}

SafetensorsSummary summarize_safetensors(const std::filesystem::path& file, const std::string& what) {
  return read_file(file, what + " '" + file.string() + "'", read_summary);
}

std::optional<std::int64_t> count_entry(const SafetensorsSummary& contents, const std::string& key) {
  const auto found = contents.metadata.find(key);
  if (found == contents.metadata.end()) return std::nullopt;
  const std::string& text = found->second;
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

}  // namespace engram
