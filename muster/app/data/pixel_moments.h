#pragma once
// What the pixels of pictures are like on average.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "muster/base/result.h"
#include "muster/data/source.h"

namespace muster::app {

struct PixelMoments {  // of every channel, pixels being in [0, 1]; rounded to four digits
  std::vector<double> mean, std;
};

// Of at most `most` samples, evenly spread, the first field of which is U8 [C, H, W] or, as one
// channel, of any other shape. A channel that is the same everywhere has std 1.
Result<PixelMoments> pixel_moments(const data::Source& source, std::int64_t most);

// Samples one by one, in memory of its own. One thread.
class Sample {
 public:
  explicit Sample(const data::Source& source);
  Status read(std::int64_t index) { return source_.read(index, views_); }
  std::span<const std::byte> bytes(std::size_t field) const { return memory_[field]; }

 private:
  const data::Source& source_;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<TensorView> views_;
};

}  // namespace muster::app
