#include "experiments/report/page.h"

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

#include "base/text/formatted.h"
#include "base/text/json_text.h"
#include "envs/recorded/base64.h"

namespace engram {

// Of experiments/CMakeLists.txt: the files of page/ and third_party/uplot.
extern const char* const kPageScript;
extern const char* const kPageStyle;
extern const char* const kPageScriptSha256;  // in hexadecimal

namespace {

// A list of objects with the same keys names these once.
bool is_list_of_rows(const Json& json) {
  if (!json.is_array() || json.size() < 3 || !json.front().is_object() || json.front().empty()) return false;
  for (const Json& row : json) {
    if (!row.is_object() || row.size() != json.front().size()) return false;
    for (auto own = row.begin(), first = json.front().begin(); own != row.end(); ++own, ++first)
      if (own.key() != first.key()) return false;
  }
  return true;
}

// What the page's JavaScript unpacks (page/base.js), with as many digits as anything shows.
Json packed(const Json& json) {
  if (json.is_number_float()) {
    const double value = json.get<double>();
    return std::isfinite(value) ? Json(std::strtod(formatted("%.5g", value).c_str(), nullptr)) : Json();
  }
  if (is_list_of_rows(json)) {
    Json columns = Json::array(), rows = Json::array();
    for (const auto& [key, value] : json.front().items()) columns.push_back(key);
    for (const Json& row : json) {
      Json& values = rows.emplace_back(Json::array());
      for (const Json& value : row) values.push_back(packed(value));
    }
    return {{"packed_columns", std::move(columns)}, {"rows", std::move(rows)}};
  }
  if (!json.is_structured()) return json;
  Json made = json.is_array() ? Json::array() : Json::object();
  for (const auto& [key, value] : json.items()) {
    if (json.is_array())
      made.push_back(packed(value));
    else
      made[key] = packed(value);
  }
  return made;
}

// Without what no part of the page shows.
Json shown(Json data) {
  bool first = true;
  for (auto& [key, scores] : data["scores"].items()) {
    scores.erase("table");
    for (auto& [method, own] : scores["methods"].items()) own.erase("profile");
    if (!std::exchange(first, false)) scores.erase("comparisons");
  }
  for (const char* const key : {"experiment", "returns", "published", "answer"}) data.erase(key);
  return data;
}

// No "<" can end the element that it stands in.
std::string script_text(const Json& json) {
  std::string text;
  for (const char c : json_text(json)) text += c == '<' ? "\\u003c" : std::string(1, c);
  return text;
}

std::string base64_of_hexadecimal(const std::string& text) {
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(static_cast<std::uint8_t>(std::stoi(text.substr(i, 2), nullptr, 16)));
  return encode_base64(bytes);
}

}  // namespace

std::string report_page(const Document& document, const Json& data) {
  // Of scripts that one alone runs whose digest this is.
  const std::string policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-" +
                             base64_of_hexadecimal(kPageScriptSha256) + "'";
  return "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"" +
         policy + "\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
         html_escaped(document.title()) + "</title>\n<style>" + kPageStyle + "</style></head>\n<body>\n<main>\n" +
         document.to_html() + "</main>\n<script type=\"application/json\" id=\"data\">" +
         script_text(packed(shown(data))) + "</script>\n<script>" + kPageScript + "</script>\n</body></html>\n";
}

}  // namespace engram
