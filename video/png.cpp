#include "video/png.h"

#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <stdexcept>
#include <vector>

namespace engram {

std::string encode_png(const RgbImage& image) {
  RgbImage copy = image;  // OpenCV takes no pointer to const
  const cv::Mat rgb(copy.height, copy.width, CV_8UC3, copy.pixels.data());
  cv::Mat bgr;
  cv::cvtColor(rgb, bgr, cv::COLOR_RGB2BGR);
  std::vector<unsigned char> bytes;
  if (!cv::imencode(".png", bgr, bytes, {cv::IMWRITE_PNG_COMPRESSION, 9}))
    throw std::runtime_error("a picture cannot be encoded as PNG");
  return {bytes.begin(), bytes.end()};
}

}  // namespace engram
