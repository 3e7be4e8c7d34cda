#pragma once
// Transforms change one field of a sample. Their random numbers are keyed by (seed, epoch, sample),
// so a sample looks the same whoever prepares it. Immutable, so thread-safe.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/random.h"
#include "muster/data/source.h"

namespace muster::data {

class Transform {
 public:
  virtual ~Transform() = default;
  virtual std::string_view name() const noexcept = 0;
  // What comes out for `input`; kInvalid for what it cannot handle.
  virtual Result<FieldSpec> output(const FieldSpec& input) const = 0;
  // `output` has the shape announced above and does not overlap `input`.
  virtual void apply(const RandomStream& random, const TensorView& input,
                     const TensorView& output) const noexcept = 0;
};
using TransformPtr = std::shared_ptr<const Transform>;

// U8, I32, F32 or F64 [C, …] -> F32 of the same shape: (value - mean[c]) / std[c], where a byte
// counts as value / 255. One mean and one std serve all channels.
TransformPtr normalise(std::vector<float> mean, std::vector<float> std);
// [C, H, W] -> the same: pads with zeros by `padding` on each side, then cuts H × W at random.
TransformPtr random_crop(std::int32_t padding);
// [C, H, W] -> the same, mirrored left to right with probability one half.
TransformPtr random_horizontal_flip();

struct FieldTransform {
  std::string field;
  TransformPtr transform;
};

// A Source's fields through transforms, in the order given.
class Pipeline {
 public:
  // kInvalid, naming the transform and field, where one does not fit. No transforms: as the source.
  static Result<Pipeline> create(SourcePtr source, std::vector<FieldTransform> transforms,
                                 std::uint64_t seed = 0);

  const Source& source() const noexcept { return *source_; }
  const std::vector<FieldSpec>& fields() const noexcept { return fields_; }  // that come out

  // Scratch memory of one thread; cheap to keep, not to make.
  class Scratch {
   public:
    explicit Scratch(const Pipeline& pipeline);

   private:
    friend class Pipeline;
    std::vector<std::byte> bytes_;
    std::vector<TensorView> inputs_;                // what the source writes, a view for each field
    std::vector<std::vector<TensorView>> between_;  // outputs before the last, for each field
  };

  // Prepares sample `index` as epoch `epoch` sees it into one tensor for each of fields().
  Status read(std::int64_t epoch, std::int64_t index, std::span<const TensorView> into,
              Scratch& scratch) const;

 private:
  Pipeline() = default;
  struct Stage {
    TransformPtr transform;
    FieldSpec output;
    std::uint64_t number;  // among all transforms: keys its random numbers
  };
  SourcePtr source_;
  std::vector<std::vector<Stage>> stages_;  // for each field of the source
  std::vector<FieldSpec> fields_;
  std::uint64_t seed_ = 0;
};

}  // namespace muster::data
