#pragma once
// A small training state for the tests of this folder.

#include <cstdint>
#include <vector>

#include "muster/checkpoint/checkpointer.h"

namespace muster::checkpoint {

// Values that tell where they belong: tensor, element and `salt`.
class SampleState {
 public:
  explicit SampleState(int salt) {
    for (std::size_t i = 0; i < weight_.size(); ++i) {
      weight_[i] = static_cast<float>(salt * 1000) + static_cast<float>(i);
      moment_[i] = -weight_[i];
    }
    steps_[0] = salt;
  }
  SampleState(const SampleState&) = delete;
  SampleState& operator=(const SampleState&) = delete;

  std::vector<NamedTensor> model() {
    return {{"fc.weight", {DType::kF32, {2, 3}, bytes(0, 6)}},
            {"fc.bias", {DType::kF32, {4}, bytes(6, 4)}}};
  }
  std::vector<NamedTensor> optimizer() {
    return {{"fc.moment", {DType::kF32, {10}, std::as_writable_bytes(std::span(moment_))}},
            {"steps", {DType::kI64, {}, std::as_writable_bytes(std::span(steps_))}}};
  }
  SaveRequest request(std::int64_t step) {
    return {Step{step}, Generation{1}, model(), optimizer(), R"({"samples_seen":77})", {}};
  }
  LoadTarget target() { return {whole_slices(model()), whole_slices(optimizer())}; }

  bool operator==(const SampleState& other) const {
    return weight_ == other.weight_ && moment_ == other.moment_ && steps_ == other.steps_;
  }

 private:
  std::span<std::byte> bytes(std::size_t first, std::size_t count) {
    return std::as_writable_bytes(std::span(weight_).subspan(first, count));
  }

  std::vector<float> weight_ = std::vector<float>(10);
  std::vector<float> moment_ = std::vector<float>(10);
  std::vector<std::int64_t> steps_ = std::vector<std::int64_t>(1);
};

}  // namespace muster::checkpoint
