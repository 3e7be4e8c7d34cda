#pragma once
// An augmentation: its random numbers are keyed by seed, epoch and sample, so a sample looks the
// same whichever worker prepares it.

#include <muster/app.h>

#include <memory>
#include <string_view>

namespace tides {

class Jitter final : public muster::data::Transform {
 public:
  explicit Jitter(double metres) : metres_(static_cast<float>(metres)) {}

  std::string_view name() const noexcept override { return "jitter"; }
  muster::Result<muster::data::FieldSpec> output(
      const muster::data::FieldSpec& input) const override {
    return input;
  }
  void apply(const muster::RandomStream& random, const muster::TensorView& input,
             const muster::TensorView& output) const noexcept override {
    const auto from = input.as<float>();
    const auto to = output.as<float>();
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = from[i] + metres_ * random.normal(i);
  }

 private:
  float metres_;
};

inline muster::data::FieldTransform make_jitter(const muster::Options& options) {
  return {"input", std::make_shared<Jitter>(options.number("metres"))};
}

}  // namespace tides
