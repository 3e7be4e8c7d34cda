#include "muster/app/data/pixel_moments.h"

#include <algorithm>
#include <cmath>

namespace muster::app {
namespace {

struct Moments {
  std::uint64_t sum = 0, squares = 0, count = 0;
  void add(std::span<const std::byte> pixels) {
    for (const std::byte pixel : pixels) {
      const auto value = std::to_integer<std::uint64_t>(pixel);
      sum += value;
      squares += value * value;
    }
    count += pixels.size();
  }
  double mean() const { return static_cast<double>(sum) / static_cast<double>(count) / 255; }
  double deviation() const {
    const double square = static_cast<double>(squares) / static_cast<double>(count) / (255 * 255);
    return std::sqrt(std::max(0.0, square - mean() * mean()));
  }
};

double rounded(double value) { return std::round(value * 1e4) / 1e4; }

}  // namespace

Sample::Sample(const data::Source& source) : source_(source) {
  for (const data::FieldSpec& field : source.fields()) {
    const auto bytes = static_cast<std::size_t>(data::byte_size(field));
    memory_.emplace_back(bytes);
    views_.push_back({field.dtype, field.shape, memory_.back()});
  }
}

Result<PixelMoments> pixel_moments(const data::Source& source, std::int64_t most) {
  const Shape& shape = source.fields().front().shape;
  std::vector<Moments> channels(shape.size() == 3 ? static_cast<std::size_t>(shape[0]) : 1);
  const std::int64_t apart = 1 + source.size() / std::max<std::int64_t>(most, 1);
  Sample sample(source);
  for (std::int64_t i = 0; i < source.size(); i += apart) {
    MUSTER_TRY(sample.read(i));
    const auto pixels = sample.bytes(0);
    const std::size_t each = pixels.size() / channels.size();
    for (std::size_t c = 0; c < channels.size(); ++c)
      channels[c].add(pixels.subspan(c * each, each));
  }
  PixelMoments found;
  for (const Moments& channel : channels) {
    found.mean.push_back(rounded(channel.mean()));
    found.std.push_back(channel.deviation() < 1e-4 ? 1.0 : rounded(channel.deviation()));
  }
  return found;
}

}  // namespace muster::app
