#include "muster/optim/clip.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <array>
#include <cmath>
#include <limits>

namespace muster::optim {
namespace {

TEST(Clip, NormIsThatOfAllTensorsTogether) {
  const std::array<double, 2> squares{squared_norm(torch::tensor({3.0f, 0.0f})),
                                      squared_norm(torch::tensor({{4.0f}}))};
  EXPECT_EQ(global_norm(squares), 5.0);
}

TEST(Clip, KeepsWhatSinglePrecisionLoses) {
  EXPECT_EQ(squared_norm(torch::full({3}, 1e-25)), 3 * std::pow(1e-25f * 1.0, 2));
  EXPECT_TRUE(std::isfinite(squared_norm(torch::full({3}, 1e30))));
}

TEST(Clip, TakesDoubles) {
  EXPECT_EQ(squared_norm(torch::full({3000}, 1e-200, torch::kFloat64)), 0);
  EXPECT_EQ(squared_norm(torch::full({3000}, 0.5, torch::kFloat64)), 750);
}

TEST(Clip, ThreadsAndLayoutChangeNoBit) {
  const auto values = torch::sin(torch::arange(300'000, torch::kFloat32)).view({10, 30, 100, 10});
  const double expected = squared_norm(values);
  at::set_num_threads(2);
  EXPECT_EQ(squared_norm(values), expected);
  EXPECT_EQ(at::get_num_threads(), 2) << "the caller's setting is given back";
  EXPECT_EQ(squared_norm(values.contiguous(torch::MemoryFormat::ChannelsLast)), expected);
  at::set_num_threads(1);
}

TEST(Clip, ScaleIsPyTorchs) {
  EXPECT_EQ(clip_scale(0.5, 1), 1);
  EXPECT_DOUBLE_EQ(clip_scale(4, 1), 1 / (4 + 1e-6));
  EXPECT_EQ(clip_scale(4, 0), 1);
}

TEST(Clip, NamesTheFirstThatIsNotFinite) {
  const std::vector<std::string> names{"a", "b.weight", "c"};
  EXPECT_TRUE(check_finite(std::array{1.0, 2.0, 3.0}, names));
  const double nan = squared_norm(torch::tensor({1.0f, std::nanf("")}));
  const double infinity = squared_norm(torch::full({2}, std::numeric_limits<float>::infinity()));
  const auto status = check_finite(std::array{1.0, nan, infinity}, names);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kNumeric);
  EXPECT_THAT(status.error().message, testing::HasSubstr("b.weight"));
}

}  // namespace
}  // namespace muster::optim
