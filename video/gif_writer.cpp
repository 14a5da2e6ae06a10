#include "video/gif_writer.h"

#include <gif_lib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <ios>
#include <limits>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace engram {
namespace {

constexpr int kColours = 255;
constexpr GifByteType kUnchanged = 255;          // the index of a pixel that stays as it was
constexpr std::streamoff kPalettePosition = 13;  // of the file's palette: behind signature and screen descriptor
constexpr std::int64_t kMaxDelay = 65'535;       // 1/100 s

}  // namespace

// Up to 255 colours with their indices.
class GifPalette {
 public:
  // False, and nothing has changed, if there is no room for all.
  bool add_all(const std::vector<std::uint32_t>& colours) {
    const std::size_t missing = std::ranges::count_if(colours, [&](auto colour) { return !index_.contains(colour); });
    if (index_.size() + missing > kColours) return false;
    for (const std::uint32_t colour : colours)
      if (index_.try_emplace(colour, static_cast<GifByteType>(index_.size())).second)
        colours_[index_.size() - 1] = colour;
    return true;
  }

  // Of the nearest colour, where it is not one of these.
  GifByteType index(std::uint32_t colour) {
    if (const auto found = index_.find(colour); found != index_.end()) return found->second;
    const auto part = [](std::uint32_t packed, int shift) { return static_cast<int>(packed >> shift & 255); };
    int nearest = 0, least = std::numeric_limits<int>::max();
    for (int i = 0; i < size_; ++i) {
      int distance = 0;
      for (const int shift : {0, 8, 16}) {
        const int difference = part(colour, shift) - part(colours_[i], shift);
        distance += difference * difference;
      }
      if (distance < least) least = distance, nearest = i;
    }
    return index_[colour] = static_cast<GifByteType>(nearest);
  }

  // From now on index() takes colours that are none of these.
  void close() { size_ = static_cast<int>(index_.size()); }

  std::array<GifColorType, 256> table() const {
    std::array<GifColorType, 256> table{};
    for (std::size_t i = 0; i < kColours; ++i)
      table[i] = {static_cast<GifByteType>(colours_[i] >> 16), static_cast<GifByteType>(colours_[i] >> 8 & 255),
                  static_cast<GifByteType>(colours_[i] & 255)};
    return table;
  }

 private:
  std::unordered_map<std::uint32_t, GifByteType> index_;
  std::array<std::uint32_t, kColours> colours_{};  // 0xRRGGBB
  int size_ = 0;
};

namespace {

std::uint32_t packed(const std::uint8_t* pixel) { return std::uint32_t{pixel[0]} << 16 | pixel[1] << 8 | pixel[2]; }

using ColourMap = std::unique_ptr<ColorMapObject, decltype(&GifFreeMapObject)>;

ColourMap map_of(const GifPalette& palette) {
  return {GifMakeMapObject(256, palette.table().data()), &GifFreeMapObject};
}

}  // namespace

class GifWriter::File {
 public:
  File(std::ostream& stream, int width, int height, double frames_per_second)
      : stream_(stream), begin_(stream.tellp()), width_(width), height_(height), rate_(frames_per_second) {
    gif_ = EGifOpen(&stream_, &put, nullptr);
    if (gif_ == nullptr) throw std::runtime_error("giflib cannot begin a GIF");
    EGifSetGifVersion(gif_, true);
    EGifPutScreenDesc(gif_, width, height, 8, 0, map_of(palette_).get());  // the palette is filled in at the end
    const GifByteType forever[] = {1, 0, 0};
    EGifPutExtensionLeader(gif_, APPLICATION_EXT_FUNC_CODE);
    EGifPutExtensionBlock(gif_, 11, "NETSCAPE2.0");
    EGifPutExtensionBlock(gif_, sizeof forever, forever);
    EGifPutExtensionTrailer(gif_);
  }
  ~File() {
    if (gif_ != nullptr) EGifCloseFile(gif_, nullptr);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void write(const RgbImage& frame) {
    if (frame.width != width_ || frame.height != height_)
      throw std::invalid_argument("GifWriter: a frame of another size");
    const std::int64_t now = time_of(frames_++);
    Box changed = changed_box(frame);
    if (changed.width == 0) {
      if (time_of(frames_) - shown_at_ <= kMaxDelay) return;  // the frame before it stands longer
      changed = {0, 0, 1, 1};
    }
    put_pending(now);
    shown_at_ = now;
    pending_ = indexed(frame, changed);
    before_ = frame;
  }

  void finish() {
    if (frames_ == 0) throw std::logic_error("GifWriter: a film without frames");
    put_pending(time_of(frames_));
    EGifCloseFile(std::exchange(gif_, nullptr), nullptr);
    const std::streampos end = stream_.tellp();
    stream_.seekp(begin_ + kPalettePosition);
    for (const GifColorType& colour : palette_.table())
      for (const GifByteType part : {colour.Red, colour.Green, colour.Blue}) stream_.put(static_cast<char>(part));
    stream_.seekp(end);
  }

 private:
  // A part of a frame as indices of a palette, the file's if it has none of its own.
  struct Picture {
    Box box;
    std::vector<GifByteType> indices;
    ColourMap own_palette{nullptr, &GifFreeMapObject};
  };

  static int put(GifFileType* gif, const GifByteType* bytes, int count) {
    auto& stream = *static_cast<std::ostream*>(gif->UserData);
    stream.write(reinterpret_cast<const char*>(bytes), count);
    return stream ? count : 0;
  }

  // When frame `index` begins, in 1/100 s.
  std::int64_t time_of(std::int64_t index) const { return std::llround(100 * static_cast<double>(index) / rate_); }

  // The smallest box that holds all changes; of width 0 if there are none.
  Box changed_box(const RgbImage& frame) const {
    if (before_.pixels.empty()) return {0, 0, width_, height_};
    const std::size_t stride = 3 * static_cast<std::size_t>(width_);
    int left = width_, right = 0, top = height_, bottom = 0;
    for (int y = 0; y < height_; ++y) {
      const std::uint8_t* const now = &frame.pixels[y * stride];
      const std::uint8_t* const then = &before_.pixels[y * stride];
      if (std::memcmp(now, then, stride) == 0) continue;
      const int first = static_cast<int>(std::mismatch(now, now + stride, then).first - now) / 3;
      int last = width_ - 1;
      while (std::memcmp(now + 3 * last, then + 3 * last, 3) == 0) --last;
      left = std::min(left, first), right = std::max(right, last + 1);
      top = std::min(top, y), bottom = y + 1;
    }
    return right == 0 ? Box{} : Box{left, top, right - left, bottom - top};
  }

  Picture indexed(const RgbImage& frame, const Box& box) {
    // Colours of what changes; the same pixel by pixel.
    std::vector<std::uint32_t> colours;
    std::vector<bool> changes;
    for (int y = box.y; y < box.bottom(); ++y)
      for (int x = box.x; x < box.right(); ++x) {
        const std::size_t at = 3 * (static_cast<std::size_t>(y) * width_ + x);
        changes.push_back(before_.pixels.empty() || std::memcmp(&frame.pixels[at], &before_.pixels[at], 3) != 0);
        if (changes.back()) colours.push_back(packed(&frame.pixels[at]));
      }
    std::unordered_map<std::uint32_t, std::int64_t> counts;
    for (const std::uint32_t colour : colours) ++counts[colour];
    std::vector<std::pair<std::int64_t, std::uint32_t>> frequent;
    for (const auto& [colour, count] : counts) frequent.emplace_back(count, colour);
    std::ranges::sort(frequent, std::greater<>());
    std::vector<std::uint32_t> distinct;
    for (const auto& [count, colour] : frequent) distinct.push_back(colour);

    Picture picture{box, std::vector<GifByteType>(changes.size(), kUnchanged)};
    GifPalette own;
    const bool shares = palette_.add_all(distinct);
    if (!shares) {
      distinct.resize(std::min<std::size_t>(distinct.size(), kColours));
      own.add_all(distinct);
      own.close();
      picture.own_palette = map_of(own);
    }
    GifPalette& palette = shares ? palette_ : own;
    std::size_t next = 0;
    for (std::size_t i = 0; i < changes.size(); ++i)
      if (changes[i]) picture.indices[i] = palette.index(colours[next++]);
    return picture;
  }

  void put_pending(std::int64_t until) {
    if (pending_.indices.empty()) return;
    const GraphicsControlBlock control{DISPOSE_DO_NOT, false, static_cast<int>(until - shown_at_), kUnchanged};
    GifByteType extension[4];
    EGifGCBToExtension(&control, extension);
    EGifPutExtension(gif_, GRAPHICS_EXT_FUNC_CODE, sizeof extension, extension);
    const Box& box = pending_.box;
    EGifPutImageDesc(gif_, box.x, box.y, box.width, box.height, false, pending_.own_palette.get());
    for (int row = 0; row < box.height; ++row)
      EGifPutLine(gif_, &pending_.indices[static_cast<std::size_t>(row) * box.width], box.width);
    pending_.indices.clear();
  }

  std::ostream& stream_;
  const std::streampos begin_;
  const int width_, height_;
  const double rate_;
  GifFileType* gif_ = nullptr;
  GifPalette palette_;
  std::int64_t frames_ = 0;
  RgbImage before_;
  Picture pending_;            // waits to know how long it stands
  std::int64_t shown_at_ = 0;  // when it began, in 1/100 s
};

GifWriter::GifWriter(std::ostream& stream, int width, int height, double frames_per_second) {
  if (width < 1 || height < 1 || width > kMaxSize || height > kMaxSize || !(frames_per_second > 0) ||
      frames_per_second > kMaxFramesPerSecond)
    throw std::invalid_argument("GifWriter: " + std::to_string(width) + " x " + std::to_string(height) + " at " +
                                std::to_string(frames_per_second) + " frames per second");
  file_ = std::make_unique<File>(stream, width, height, frames_per_second);
}

GifWriter::~GifWriter() = default;

void GifWriter::write(const RgbImage& frame) { file_->write(frame); }

void GifWriter::finish() { file_->finish(); }

}  // namespace engram
