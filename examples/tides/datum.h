#pragma once
// A transform: what it does to a sample, it does in training and in evaluation.

#include <muster/app.h>

#include <memory>
#include <string_view>

namespace tides {

// Levels above a datum, as tide tables give them.
class Datum final : public muster::data::Transform {
 public:
  explicit Datum(double metres) : metres_(static_cast<float>(metres)) {}

  std::string_view name() const noexcept override { return "datum"; }
  muster::Result<muster::data::FieldSpec> output(
      const muster::data::FieldSpec& input) const override {
    return input;
  }
  void apply(const muster::RandomStream&, const muster::TensorView& input,
             const muster::TensorView& output) const noexcept override {
    const auto from = input.as<float>();
    const auto to = output.as<float>();
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = from[i] - metres_;
  }

 private:
  float metres_;
};

inline muster::data::FieldTransform make_datum(const muster::Options& options) {
  return {"input", std::make_shared<Datum>(options.number("metres"))};
}

}  // namespace tides
