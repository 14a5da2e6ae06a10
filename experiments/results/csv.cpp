#include "experiments/results/csv.h"

#include <fstream>
#include <iterator>

#include "base/error.h"
#include "base/text/text.h"

namespace engram {

namespace {
constexpr std::size_t kMaxFileBytes = 1 << 28;
}

std::string read_table_file(const std::filesystem::path& file) {
  const std::string where = std::string("'").append(file.string()).append("'");
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) throw UserError(where + " is not a file");
  if (std::filesystem::file_size(file, error) > kMaxFileBytes || error) throw UserError(where + " is too large");
  std::ifstream stream(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(stream), {}};
  if (!stream) throw UserError(where + " cannot be read");
  return std::string(without_byte_order_mark(text, where));
}

std::vector<std::string> read_csv_record(std::string_view text, std::size_t& position, const std::string& where) {
  std::vector<std::string> fields(1);
  bool quoted = false, was_quoted = false;
  for (; position < text.size(); ++position) {
    const char c = text[position];
    if (quoted) {
      if (c != '"') {
        fields.back() += c;
      } else if (position + 1 < text.size() && text[position + 1] == '"') {
        fields.back() += '"';
        ++position;
      } else {
        quoted = false;
      }
    } else if (c == '"' && fields.back().empty() && !was_quoted) {
      quoted = was_quoted = true;
    } else if (c == ',') {
      fields.emplace_back();
      was_quoted = false;
    } else if (c == '\n' || (c == '\r' && position + 1 < text.size() && text[position + 1] == '\n')) {
      position += c == '\r' ? 2 : 1;
      return fields;
    } else if (c == '"' || was_quoted) {
      throw UserError(where + " has a quote out of place");
    } else {
      fields.back() += c;
    }
  }
  if (quoted) throw UserError(where + " ends inside a quoted field");
  return fields;
}

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + "\"";
}

std::string number_text(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

}  // namespace engram
