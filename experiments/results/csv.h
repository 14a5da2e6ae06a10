// CSV as RFC 4180 has it, read as if a stranger had written it.
#pragma once

#include <charconv>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace engram {

// The whole file. Throws UserError for what is no file, is larger than 256 MiB, or cannot be read.
std::string read_table_file(const std::filesystem::path& file);

// The fields of the record at `position`, which moves to its end. Throws UserError, `where` named, for a quote out of
// place.
std::vector<std::string> read_csv_record(std::string_view text, std::size_t& position, const std::string& where);

// Whether all of `text` is a number of this type, then in `value`; a double may be infinite or none.
template <class T>
bool parse_whole(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// A field: quoted where it holds a comma, a quote, or a line's end.
std::string csv_field(std::string_view text);
// The shortest decimal that reads back to the same double; `value` is finite.
std::string number_text(double value);

}  // namespace engram
