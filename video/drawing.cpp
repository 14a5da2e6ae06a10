#include "video/drawing.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iomanip>
#include <opencv2/imgproc.hpp>
#include <sstream>

namespace engram {
namespace {

// Text is drawn this many times larger and averaged down: OpenCV's stroke fonts know whole-pixel strokes only.
constexpr int kSupersampling = 4;
constexpr int kFont = cv::FONT_HERSHEY_SIMPLEX;
constexpr double kCapitalHeight = 21;  // of kFont at size 1, in pixels
constexpr double kStroke = 0.125;      // thickness of a stroke, as a fraction of the capital height
constexpr double kBoldStroke = 0.19;
constexpr int kInkLevels = 15;  // between none and full: few, so that an animated GIF has room for all its colours

cv::Mat view_of(RgbImage& image) { return cv::Mat(image.height, image.width, CV_8UC3, image.pixels.data()); }

double font_size(const TextStyle& style) { return style.height * kSupersampling / kCapitalHeight; }

int stroke(const TextStyle& style) {
  return std::max(1L, std::lround(style.height * kSupersampling * (style.bold ? kBoldStroke : kStroke)));
}

std::string shortened(const std::string& text, const TextStyle& style, int width) {
  if (text_width(text, style) <= width) return text;
  std::size_t length = text.size();
  while (length > 0 && text_width(text.substr(0, length) + "..", style) > width) --length;
  return text.substr(0, length) + "..";
}

}  // namespace

void paste(RgbImage& image, const RgbImage& picture, int x, int y) {
  const cv::Rect inside = cv::Rect(x, y, picture.width, picture.height) & cv::Rect(0, 0, image.width, image.height);
  RgbImage copy = picture;
  view_of(copy)(cv::Rect(inside.x - x, inside.y - y, inside.width, inside.height)).copyTo(view_of(image)(inside));
}

int text_width(const std::string& text, const TextStyle& style) {
  int baseline = 0;
  const int width = cv::getTextSize(text, kFont, font_size(style), stroke(style), &baseline).width;
  return (width + kSupersampling - 1) / kSupersampling;
}

void draw_text(RgbImage& image, const std::string& text, const Box& box, const TextStyle& style, Align align) {
  const std::string line = shortened(text, style, box.width);
  const int width = text_width(line, style);
  const int pad = style.height;  // room for descenders and stroke ends
  cv::Mat large((style.height + 2 * pad) * kSupersampling, (width + 2 * pad) * kSupersampling, CV_8UC1, cv::Scalar(0));
  cv::putText(large, line, {pad * kSupersampling, (pad + style.height) * kSupersampling}, kFont, font_size(style),
              cv::Scalar(255), stroke(style), cv::LINE_AA);
  cv::Mat coverage;
  cv::resize(large, coverage, {}, 1.0 / kSupersampling, 1.0 / kSupersampling, cv::INTER_AREA);

  const int slack = box.width - width;
  const int left = box.x - pad + (align == Align::kLeft ? 0 : align == Align::kRight ? slack : slack / 2);
  const int top = box.y + (box.height - style.height) / 2 - pad;
  const int colour[3] = {style.colour.red, style.colour.green, style.colour.blue};
  for (int y = std::max(0, -top); y < std::min(coverage.rows, image.height - top); ++y) {
    for (int x = std::max(0, -left); x < std::min(coverage.cols, image.width - left); ++x) {
      const int ink = (coverage.at<std::uint8_t>(y, x) * kInkLevels + 127) / 255 * (255 / kInkLevels);
      std::uint8_t* const pixel = &image.pixels[3 * (static_cast<std::size_t>(top + y) * image.width + left + x)];
      for (int c = 0; c < 3; ++c)
        pixel[c] = static_cast<std::uint8_t>((pixel[c] * (255 - ink) + colour[c] * ink) / 255);
    }
  }
}

std::vector<std::string> wrapped_text(const std::string& text, const TextStyle& style, int width) {
  std::vector<std::string> rows;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (rows.empty() || text_width(rows.back() + " " + word, style) > width)
      rows.push_back(word);
    else
      rows.back() += " " + word;
  }
  return rows;
}

std::string fixed_number_text(double value, int decimals) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(decimals) << value;
  return text.str();
}

std::string rounded_number_text(double value) {
  std::string text = fixed_number_text(value, 3);
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return text == "-0" ? "0" : text;
}

std::string signed_number_text(double value) {
  const std::string text = rounded_number_text(value);
  return text[0] == '-' || text == "0" ? text : "+" + text;
}

}  // namespace engram
