#include "agents/weights.h"

#include <doctest/doctest.h>

#include <cstring>

#include "base/error.h"
#include "tests/agents/temporary_folder.h"

using namespace engram;

namespace {

TensorMap some_tensors() {
  return {{"wide", torch::arange(6, torch::kFloat64).view({2, 3})},
          {"usual", torch::arange(8, torch::kFloat32).view({2, 2, 2}) / 3},
          {"long", torch::tensor({-1, 1 << 30}, torch::kInt64)},
          {"int", torch::tensor({-5}, torch::kInt32)},
          {"bytes", torch::tensor({0, 255, 7}, torch::kUInt8)},
          {"scalar", torch::tensor(2.5f)},
          {"empty", torch::zeros({0, 4})}};
}

// A file with this header in front of `bytes` bytes.
std::string file_text(const std::string& header, std::size_t bytes) {
  const std::uint64_t length = header.size();
  std::string text(sizeof(length), '\0');
  std::memcpy(text.data(), &length, sizeof(length));
  return text + header + std::string(bytes, '\0');
}

std::string load_error(const std::filesystem::path& file) {
  return message_of<UserError>([&] { load_safetensors(file); });
}

std::string header_error(const std::string& header, std::size_t bytes) {
  const TemporaryFolder folder;
  write_text(folder / "w", file_text(header, bytes));
  return load_error(folder / "w");
}

std::string entry_error(const std::string& dtype, const std::string& shape, const std::string& offsets,
                        std::size_t bytes = 8) {
  return header_error(
      "{\"x\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}}", bytes);
}

}  // namespace

TEST_CASE("tensors of every type survive a round trip") {
  const TemporaryFolder folder;
  const TensorMap tensors = some_tensors();
  save_safetensors(folder / "w", tensors, {{"note", "with \"quotes\" and\nlines"}});
  const SafetensorsFile file = load_safetensors(folder / "w");
  CHECK(file.metadata.at("note") == "with \"quotes\" and\nlines");
  REQUIRE(file.tensors.size() == tensors.size());
  for (const auto& [name, tensor] : tensors) {
    CAPTURE(name);
    CHECK(file.tensors.at(name).scalar_type() == tensor.scalar_type());
    CHECK(torch::equal(file.tensors.at(name), tensor));
  }
  // The header's length lets every tensor lie aligned.
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, read_text(folder / "w").data(), sizeof(header_bytes));
  CHECK(header_bytes % 8 == 0);
}

TEST_CASE("a non-contiguous tensor is written by its values") {
  const TemporaryFolder folder;
  const torch::Tensor transposed = torch::arange(6, torch::kFloat32).view({2, 3}).t();
  save_safetensors(folder / "w", {{"x", transposed}}, {});
  CHECK(torch::equal(load_safetensors(folder / "w").tensors.at("x"), transposed));
}

TEST_CASE("a file cut at any length is refused") {
  const TemporaryFolder folder;
  save_safetensors(folder / "w", some_tensors(), {{"a", "b"}});
  const std::string whole = read_text(folder / "w");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    CAPTURE(length);
    write_text(folder / "cut", whole.substr(0, length));
    REQUIRE(mentions(load_error(folder / "cut"), "is damaged"));
  }
  write_text(folder / "longer", whole + "x");
  CHECK(mentions(load_error(folder / "longer"), "do not end where the file ends"));
}

TEST_CASE("a flipped bit in the header is refused or harmless, never more") {
  const TemporaryFolder folder;
  save_safetensors(folder / "w", {{"ab", torch::ones({2, 3})}, {"c", torch::ones({4}, torch::kInt64)}}, {{"k", "v"}});
  const std::string whole = read_text(folder / "w");
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, whole.data(), sizeof(header_bytes));
  int refused = 0;
  for (std::size_t bit = 0; bit < (8 + header_bytes) * 8; ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    write_text(folder / "flipped", flipped);
    try {
      for (const auto& [name, tensor] : load_safetensors(folder / "flipped").tensors)
        REQUIRE(tensor.nbytes() <= whole.size());
    } catch (const UserError&) {
      ++refused;
    }
  }
  CHECK(refused > static_cast<int>(header_bytes));
}

TEST_CASE("hostile headers are refused with a reason") {
  CHECK(mentions(entry_error("F32", "[2]", "[0,8]"), "nothing was thrown"));
  CHECK(mentions(entry_error("F16", "[4]", "[0,8]"), "unknown dtype \"F16\""));
  CHECK(mentions(entry_error("F32", "[3]", "[0,8]"), "do not fit its shape"));
  CHECK(mentions(entry_error("F32", "[2]", "[8,0]"), "do not fit its shape"));
  CHECK(mentions(entry_error("F32", "[2]", "[-8,0]"), "not a whole number"));
  CHECK(mentions(entry_error("F32", "[-2]", "[0,8]"), "not a whole number"));
  CHECK(mentions(entry_error("F32", "[2.0]", "[0,8]"), "not a whole number"));
  CHECK(mentions(entry_error("F32", "[2]", "[8,16]", 16), "does not begin where"));
  CHECK(mentions(entry_error("F32", "[2]", "[0,8]", 12), "do not end where"));
  CHECK(mentions(entry_error("F32", "[2]", "[0,8]", 4), "do not end where"));
  CHECK(mentions(entry_error("F32", "[2,4611686018427387904]", "[0,8]"), "too large"));
  CHECK(mentions(entry_error("F32", "[18446744073709551615]", "[0,8]"), "too large"));
  CHECK(mentions(entry_error("F32", "[0,4611686018427387904,4611686018427387904]", "[0,0]", 0), "too large"));
  CHECK(mentions(entry_error("F32", "[4611686018427387906]", "[0,8]"), "too large"));
  CHECK(mentions(entry_error("F32", "\"2\"", "[0,8]"), "malformed shape"));
  CHECK(mentions(entry_error("F32", "[2]", "[0]"), "malformed data_offsets"));
  CHECK(mentions(header_error("{\"x\":3}", 0), "not described by"));
  CHECK(mentions(header_error("[]", 0), "not a JSON object"));
  CHECK(mentions(header_error("{", 0), "not valid JSON"));
  CHECK(mentions(header_error("{}x", 0), "not valid JSON"));
  CHECK(mentions(header_error("{\"__metadata__\":{\"a\":1}}", 0), "something else than text"));
  CHECK(mentions(header_error("{\"__metadata__\":[]}", 0), "metadata is not an object"));
  const std::string entry = "{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}";
  CHECK(mentions(header_error("{\"x\":" + entry + ",\"y\":" + entry + "}", 8), "does not begin where"));
  CHECK(mentions(header_error("{\"x\":" + entry + ",\"x\":" + entry + "}", 8), "names 'x' twice"));
  const std::string deep = "{\"x\":" + std::string(1'000'000, '[');
  CHECK(mentions(header_error(deep, 0), "nested too deeply"));
}

TEST_CASE("a missing file and a folder are named") {
  const TemporaryFolder folder;
  CHECK(mentions(load_error(folder / "none"), "none' does not exist"));
  CHECK(mentions(load_error(folder.path()), "is not a file"));
}

TEST_CASE("weights of a module go out and back in, all or nothing") {
  torch::nn::Sequential module(torch::nn::Linear(3, 2), torch::nn::Linear(2, 1));
  torch::nn::Sequential other(torch::nn::Linear(3, 2), torch::nn::Linear(2, 1));
  TensorMap weights = module_weights(*module);
  CHECK(weights.size() == 4);
  load_module_weights(*other, weights, "here");
  for (const auto& [name, tensor] : module_weights(*other)) CHECK(torch::equal(tensor, weights.at(name)));

  const auto error = [&](const TensorMap& changed) {
    return message_of<UserError>([&] { load_module_weights(*other, changed, "here"); });
  };
  for (auto& [name, tensor] : weights) tensor = tensor + 1;
  TensorMap changed = weights;
  changed.erase("1.bias");
  CHECK(error(changed) == "here: tensor '1.bias' is missing");
  changed = weights;
  changed["extra"] = torch::ones({1});
  CHECK(mentions(error(changed), "'extra' is unknown"));
  changed = weights;
  changed["1.weight"] = torch::ones({2, 1});
  CHECK(mentions(error(changed), "[2, 1], this config needs Float [1, 2]"));
  for (const auto& [name, tensor] : module_weights(*other)) CHECK(torch::equal(tensor + 1, weights.at(name)));
}
