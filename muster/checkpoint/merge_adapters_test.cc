#include "muster/checkpoint/merge_adapters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace muster::checkpoint {
namespace {

using ::testing::ElementsAre;

class MergeAdapters : public ::testing::Test {
 protected:
  std::vector<NamedTensor> tensors() {
    const auto named = [](std::string name, Shape shape, std::vector<float>& values) {
      return NamedTensor{
          std::move(name),
          {DType::kF32, std::move(shape), std::as_writable_bytes(std::span(values))}};
    };
    return {named("fc.weight", {2, 3}, weight_), named("fc.bias", {2}, bias_),
            named("fc.lora_A.weight", {2, 3}, down_), named("fc.lora_B.weight", {2, 2}, up_),
            named("fc.lora_alpha", {1}, alpha_)};
  }

  std::vector<float> weight_{1, 2, 3, 4, 5, 6};
  std::vector<float> bias_{7, 8};
  std::vector<float> down_{1, 0, -1, 2, 1, 0};
  std::vector<float> up_{1, 2, 0, -1};
  std::vector<float> alpha_{4};  // of rank 2: twice the product
};

TEST_F(MergeAdapters, AddsTheScaledProduct) {
  auto all = tensors();
  ASSERT_TRUE(merge_adapters(all));
  EXPECT_THAT(weight_, ElementsAre(1 + 2 * 5, 2 + 2 * 2, 3 - 2 * 1, 4 - 2 * 2, 5 - 2 * 1, 6));
  EXPECT_THAT(bias_, ElementsAre(7, 8));
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "fc.weight");
  EXPECT_EQ(all[1].name, "fc.bias");
}

TEST_F(MergeAdapters, NeedsAdaptersThatFit) {
  auto none = tensors();
  none.resize(2);
  EXPECT_EQ(merge_adapters(none).error().code, ErrorCode::kInvalid);
  auto half = tensors();
  half.erase(half.begin() + 3);
  const Status lacks = merge_adapters(half);
  EXPECT_EQ(lacks.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(lacks.error().message.find("fc.lora_B.weight"), std::string::npos);
  auto bent = tensors();
  bent[3].tensor.shape = {1, 4};
  EXPECT_EQ(merge_adapters(bent).error().code, ErrorCode::kCorrupt);
  auto flat = tensors();
  flat[0].tensor.dtype = DType::kI32;
  EXPECT_EQ(merge_adapters(flat).error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace muster::checkpoint
