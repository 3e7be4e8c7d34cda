#include "muster/checkpoint/weights.h"

#include <gtest/gtest.h>

#include "muster/checkpoint/checkpointer.h"
#include "muster/checkpoint/export.h"
#include "muster/checkpoint/sample_state.h"
#include "muster/testing/fake_clock.h"
#include "muster/testing/memory_files.h"

namespace muster::checkpoint {
namespace {

// A run with checkpoints of steps 5 and 9, and an export of the former.
class WeightsTest : public ::testing::Test {
 protected:
  WeightsTest() {
    Checkpointer checkpointer(disk_, clock_, "/run/checkpoints", {.keep_last = 0});
    for (const int step : {5, 9}) {
      SampleState state(step);
      EXPECT_TRUE(checkpointer.save(state.request(step)));
    }
    EXPECT_TRUE(export_weights(disk_, "/run/checkpoints/step-00000005", "/out"));
  }

  Status read(const Path& place, const std::vector<TensorSlice>& target) {
    MUSTER_ASSIGN(const Weights weights, find_weights(disk_, place));
    return read_weights(disk_, weights, target);
  }

  testing::MemoryFiles disk_;
  testing::FakeClock clock_;
};

TEST_F(WeightsTest, AreFoundWhereverTheyAre) {
  for (const auto& [place, step] :
       {std::pair("/run", 9), std::pair("/run/", 9), std::pair("/run/checkpoints", 9),
        std::pair("/run/checkpoints/step-00000005", 5), std::pair("/out/model.safetensors", 5),
        std::pair("/out", 5)}) {
    SampleState found(0), expected(step);
    const Status status = read(place, whole_slices(found.model()));
    ASSERT_TRUE(status) << place << ": " << status.error().message;
    for (std::size_t i = 0; i < 2; ++i)
      EXPECT_TRUE(
          std::ranges::equal(found.model()[i].tensor.bytes, expected.model()[i].tensor.bytes))
          << place;
  }
}

// A rank may hold parts, and some tensors only.
TEST_F(WeightsTest, AreReadInParts) {
  for (const char* place : {"/run/checkpoints/step-00000005", "/out"}) {
    std::vector<float> column(2);
    const TensorSlice slice{"fc.weight",
                            {DType::kF32, {2, 1}, std::as_writable_bytes(std::span(column))},
                            {2, 3},
                            {0, 1}};
    ASSERT_TRUE(read(place, {slice}));
    EXPECT_EQ(column, (std::vector<float>{5001, 5004})) << place;
  }
}

TEST_F(WeightsTest, MustFit) {
  for (const char* place : {"/run/checkpoints/step-00000005", "/out"}) {
    std::vector<float> values(6);
    TensorSlice slice{"fc.weight",
                      {DType::kF32, {3, 2}, std::as_writable_bytes(std::span(values))},
                      {3, 2},
                      {0, 0}};
    EXPECT_EQ(read(place, {slice}).error().code, ErrorCode::kInvalid);
    slice.name = "fc.missing";
    const Status missing = read(place, {slice});
    EXPECT_NE(missing.error().message.find("fc.missing"), std::string::npos);
    EXPECT_EQ(values, std::vector<float>(6));
  }
}

TEST_F(WeightsTest, SaysWhereThereIsNothing) {
  EXPECT_EQ(find_weights(disk_, "/nowhere").error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(disk_.create_folders("/empty"));
  const auto empty = find_weights(disk_, "/empty");
  EXPECT_EQ(empty.error().code, ErrorCode::kNotFound);
  EXPECT_NE(empty.error().message.find("/empty is no safetensors file"), std::string::npos);
}

}  // namespace
}  // namespace muster::checkpoint
