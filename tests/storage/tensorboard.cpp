// Framing and checksums; tests/apps/train/train.py reads a whole file with TensorBoard's own reader.
#include "storage/log/tensorboard.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tests/storage/temporary_folder.h"

using namespace engram;

namespace {

template <class Number>
Number number_at(const std::string& text, std::size_t position) {
  Number number;
  std::memcpy(&number, text.data() + position, sizeof(number));
  return number;
}

std::uint32_t unmasked(std::uint32_t crc) {
  const std::uint32_t rotated = crc - 0xa282ead8u;
  return rotated >> 17 | rotated << 15;
}

// The records' data, each with both checksums verified.
std::vector<std::string> records_of(const std::string& text) {
  std::vector<std::string> records;
  for (std::size_t position = 0; position < text.size();) {
    const auto length = number_at<std::uint64_t>(text, position);
    REQUIRE(unmasked(number_at<std::uint32_t>(text, position + 8)) ==
            crc32c(std::string_view(text).substr(position, 8)));
    records.push_back(text.substr(position + 12, length));
    REQUIRE(unmasked(number_at<std::uint32_t>(text, position + 12 + length)) == crc32c(records.back()));
    position += 16 + length;
  }
  return records;
}

}  // namespace

TEST_CASE("crc32c gives the published values") {
  CHECK(crc32c(std::string("123456789")) == 0xe3069283u);
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aau);  // RFC 3720, B.4
  CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43u);
}

TEST_CASE("an event file holds framed events") {
  const TemporaryFolder folder;
  TensorBoardWriter writer(folder / "events.out.tfevents.1");
  const std::vector<Scalar> scalars = {{"a/b", 1.5}};
  writer.write(300, 2.0, scalars);
  const auto records = records_of(read_text(folder / "events.out.tfevents.1"));
  REQUIRE(records.size() == 2);
  CHECK(mentions(records[0], "brain.Event:2"));
  // wall_time 2.0; step 300 = 0xac 0x02; summary of 12 bytes: value of 10: tag of 3, simple_value 1.5.
  const std::string expected = std::string("\x09\0\0\0\0\0\0\0\x40\x10\xac\x02\x2a\x0c\x0a\x0a\x0a\x03", 18) + "a/b" +
                               std::string("\x15\0\0\xc0\x3f", 5);
  CHECK(records[1] == expected);
}

TEST_CASE("a record that goes on at a position follows what stood there") {
  const TemporaryFolder folder;
  const auto file = folder / "events.out.tfevents.1";
  std::uint64_t position = 0;
  {
    TensorBoardWriter writer(file);
    writer.write_session_start(1.0, std::vector<Hyperparameter>{{"memory.name", "gru"}});
    position = writer.position();
    writer.write_session_end(2.0);
    writer.write_image(5, 3.0, "final/episode", 4, 2, "GIF89a");
  }
  TensorBoardWriter writer(file, position);
  writer.write_histograms(7, 4.0, std::vector<std::pair<std::string, Histogram>>{{"weights/actor", {}}});
  const auto records = records_of(read_text(file));
  REQUIRE(records.size() == 3);
  CHECK(mentions(records[1], "_hparams_/session_start_info"));
  CHECK(mentions(records[1], "memory.name"));
  CHECK(mentions(records[2], "weights/actor"));
}

TEST_CASE("an event file that cannot be written is named") {
  CHECK(mentions(message_of<UserError>([] { TensorBoardWriter("/no/such/folder/events"); }), "/no/such/folder/events"));
}
