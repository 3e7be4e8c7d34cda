#pragma once
// What the conformance suite needs of an engine, and of ranks that run as threads.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "muster/base/testing/sanitized.h"
#include "muster/comm/communicator.h"

namespace muster::comm {

using Ranks = std::vector<std::shared_ptr<Communicator>>;

struct EngineUnderTest {
  std::string name;
  std::function<Ranks(std::int32_t size)> create;
};
inline void PrintTo(const EngineUnderTest& engine, std::ostream* out) { *out << engine.name; }

class Conformance : public ::testing::TestWithParam<EngineUnderTest> {
 protected:
  static Ranks create(std::int32_t size) { return GetParam().create(size); }
};

inline constexpr std::int32_t kAllSizes[] = {1, 2, 3, 4, 5, 7, 8};
inline constexpr std::span<const std::int32_t> kSizes =
    kSanitized ? std::span(kAllSizes).first(5) : std::span(kAllSizes);
// The last one crosses every border of tiles, slices and messages below it. A sanitizer gets one
// that still crosses most.
inline constexpr std::int64_t kCounts[] = {0, 1, 3, 1000, kSanitized ? 20011 : 65537};
inline constexpr std::int64_t kSmallCount = kSanitized ? 3 : 1000;
// Whether combinations that cost minutes are wanted as well, as in the test
// ranks.conformance.whole.
inline bool asks_for_all() {
  static const bool whole = std::getenv("MUSTER_CONFORMANCE_WHOLE") != nullptr;
  return whole;
}
inline constexpr Reduce kReduces[] = {Reduce::kSum, Reduce::kAvg, Reduce::kMin, Reduce::kMax,
                                      Reduce::kProduct};
// What each operation can run with. In one level kHierarchical is what kAuto is.
inline constexpr Algorithm kAllReduceAlgorithms[] = {
    Algorithm::kAuto,   Algorithm::kRing,        Algorithm::kBidirectionalRing,
    Algorithm::kTree,   Algorithm::kDoubleTree,  Algorithm::kHalvingDoubling,
    Algorithm::kDirect, Algorithm::kHierarchical};
inline constexpr Algorithm kBlockAlgorithms[] = {  // reduce-scatter, all-gather
    Algorithm::kAuto,   Algorithm::kRing,         Algorithm::kBidirectionalRing,
    Algorithm::kDirect, Algorithm::kHierarchical, Algorithm::kHalvingDoubling};
inline constexpr Algorithm kBroadcastAlgorithms[] = {Algorithm::kAuto, Algorithm::kRing,
                                                     Algorithm::kTree, Algorithm::kDirect,
                                                     Algorithm::kHierarchical};
inline constexpr Algorithm kAllToAllAlgorithms[] = {Algorithm::kAuto, Algorithm::kPairwise,
                                                    Algorithm::kBruck};

// Runs `body` for every rank at once, each on a thread, and waits for all.
void on_every_rank(const Ranks& ranks, const std::function<void(Communicator&)>& body);

// A small whole number that depends on rank, place and salt without a period, so that what lies in
// the wrong place differs. The same number fits every dtype exactly.
int number_at(std::int32_t rank, std::int64_t place, int salt) noexcept;

// What rank `rank` of up to 9 contributes to a reduction at `place`. Sums stay below 256 and
// averages whole (multiples of the size); products stay small.
int contribution(Reduce reduce, std::int32_t rank, std::int32_t size, std::int64_t place);
// The result there, in rank order.
int reduced(Reduce reduce, std::int32_t size, std::int64_t place);

// `count` elements of `dtype` with their own memory. number(i) is in [0, 256).
class Values {
 public:
  Values(DType dtype, Shape shape);
  static Values filled(DType dtype, Shape shape, const std::function<int(std::int64_t)>& number);

  TensorView view();
  // How many elements differ; EXPECT_EQ(…, 0).
  std::int64_t differences(const Values& expected) const;

 private:
  DType dtype_;
  Shape shape_;
  std::vector<std::byte> bytes_;
};

}  // namespace muster::comm
