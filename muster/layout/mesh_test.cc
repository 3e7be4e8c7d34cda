#include "muster/layout/mesh.h"

#include <gtest/gtest.h>

#include <set>

#include "muster/base/check.h"

namespace muster::layout {
namespace {

MeshExtents extents(std::initializer_list<std::pair<Axis, std::int32_t>> named) {
  MeshExtents all;
  for (const auto& [axis, extent] : named) all[axis] = extent;
  return all;
}

std::vector<std::int32_t> numbers(const std::vector<Rank>& ranks) {
  std::vector<std::int32_t> plain;
  for (const Rank rank : ranks) plain.push_back(to_int(rank));
  return plain;
}

using Numbers = std::vector<std::int32_t>;

TEST(Mesh, OfOneWorkerHasOnePlace) {
  const Mesh mesh = Mesh::create({}, 1).value();
  EXPECT_EQ(mesh, Mesh());
  EXPECT_EQ(mesh.size(), 1);
  EXPECT_EQ(mesh.coordinates(Rank{0}), Coordinates());
  EXPECT_EQ(numbers(mesh.group(Rank{0}, {Axis::kTensor})), Numbers{0});
  EXPECT_EQ(mesh.describe(), "1 worker");
}

TEST(Mesh, CountsTheTensorAxisFastestAndReplicasSlowest) {
  const Mesh mesh =
      Mesh::create(extents({{Axis::kReplicate, 2}, {Axis::kPipeline, 3}, {Axis::kTensor, 2}}), 12)
          .value();
  EXPECT_EQ(mesh.describe(), "replicate 2 x pipeline 3 x tensor 2");
  Coordinates place;
  place[Axis::kReplicate] = 1;
  place[Axis::kPipeline] = 2;
  place[Axis::kTensor] = 1;
  EXPECT_EQ(mesh.rank(place), Rank{11});
  place[Axis::kTensor] = 0;
  EXPECT_EQ(mesh.rank(place), Rank{10});
  EXPECT_EQ(numbers(mesh.group(Rank{7}, {Axis::kTensor})), (Numbers{6, 7}));
  EXPECT_EQ(numbers(mesh.group(Rank{7}, {Axis::kPipeline})), (Numbers{7, 9, 11}));
  EXPECT_EQ(numbers(mesh.group(Rank{7}, {Axis::kReplicate})), (Numbers{1, 7}));
  EXPECT_EQ(numbers(mesh.group(Rank{7}, {Axis::kReplicate, Axis::kTensor})), (Numbers{0, 1, 6, 7}));
  EXPECT_EQ(numbers(mesh.group(Rank{7}, {})), Numbers{7});
}

TEST(Mesh, AnotherReplicaMovesNobody) {
  const auto with = [](std::int32_t replicas) {
    return Mesh::create(extents({{Axis::kReplicate, kRest}, {Axis::kPipeline, 3}}), 3 * replicas)
        .value();
  };
  for (std::int32_t rank = 0; rank < 6; ++rank)
    EXPECT_EQ(with(2).coordinates(Rank{rank}), with(3).coordinates(Rank{rank}));
}

// Every mesh of up to 24 workers over all six axes.
TEST(Mesh, RanksAndCoordinatesAreOneToOneAndGroupsPartitionTheRanks) {
  for (std::int32_t code = 0; code < 729; ++code) {
    MeshExtents wanted;
    std::int32_t size = 1;
    std::int32_t rest = code;
    for (const Axis axis : kAxes) {
      wanted[axis] = 1 + rest % 3;
      size *= wanted[axis];
      rest /= 3;
    }
    if (size > 24) continue;
    const Mesh mesh = Mesh::create(wanted, size).value();
    for (std::int32_t rank = 0; rank < size; ++rank)
      ASSERT_EQ(mesh.rank(mesh.coordinates(Rank{rank})), Rank{rank});
    for (const Axis axis : kAxes) {
      std::multiset<std::int32_t> seen;
      for (std::int32_t rank = 0; rank < size; ++rank) {
        const auto group = mesh.group(Rank{rank}, {axis});
        ASSERT_EQ(std::ssize(group), wanted[axis]);
        const Mesh::Part part = mesh.part(Rank{rank}, {axis});
        ASSERT_EQ(group[static_cast<std::size_t>(part.key)], Rank{rank});
        ASSERT_EQ(part.key, mesh.coordinates(Rank{rank})[axis]);
        ASSERT_EQ(Rank{part.color}, group.front());
        for (const Rank member : group) seen.insert(to_int(member));
      }
      for (std::int32_t rank = 0; rank < size; ++rank)
        ASSERT_EQ(static_cast<std::int32_t>(seen.count(rank)), wanted[axis]);
    }
  }
}

TEST(Mesh, FillsTheRest) {
  const Mesh mesh =
      Mesh::create(extents({{Axis::kReplicate, kRest}, {Axis::kPipeline, 2}, {Axis::kTensor, 2}}),
                   12)
          .value();
  EXPECT_EQ(mesh.extent(Axis::kReplicate), 3);
  EXPECT_EQ(mesh.extent(Axis::kShard), 1);
}

std::string why_no_mesh(const MeshExtents& wanted, std::int32_t workers) {
  const auto mesh = Mesh::create(wanted, workers);
  EXPECT_FALSE(mesh);
  if (mesh) return "";
  EXPECT_EQ(mesh.error().code, ErrorCode::kInvalid);
  return mesh.error().message;
}

TEST(Mesh, SaysWhatDoesNotFit) {
  EXPECT_EQ(why_no_mesh(
                extents({{Axis::kPipeline, 3}, {Axis::kTensor, 2}, {Axis::kReplicate, kRest}}), 8),
            "[layout/mesh] mesh {replicate: -1, pipeline: 3, tensor: 2}: needs a multiple of 6 "
            "workers, and there are 8; take 6 or 12 workers");
  EXPECT_EQ(why_no_mesh(extents({{Axis::kPipeline, 3}, {Axis::kShard, kRest}}), 2),
            "[layout/mesh] mesh {pipeline: 3, shard: -1}: needs a multiple of 3 workers, and there "
            "are 2; take 3 workers");
  EXPECT_EQ(why_no_mesh(extents({{Axis::kPipeline, 4}}), 8),
            "[layout/mesh] mesh {pipeline: 4}: is for 4 workers, and there are 8; write "
            "`replicate: -1` to fill them with replicas");
  EXPECT_EQ(why_no_mesh(extents({{Axis::kReplicate, 3}}), 4),
            "[layout/mesh] mesh {replicate: 3}: is for 3 workers, and there are 4; write -1 for "
            "the axis that is to take the rest");
  EXPECT_EQ(why_no_mesh(extents({{Axis::kReplicate, 0}}), 4),
            "[layout/mesh] mesh {replicate: 0}: replicate is 0; expected 1 or more, or -1 for the "
            "rest");
  EXPECT_EQ(why_no_mesh(extents({{Axis::kReplicate, kRest}, {Axis::kShard, kRest}}), 4),
            "[layout/mesh] mesh {replicate: -1, shard: -1}: more than one axis is -1; only one can "
            "be the rest");
  EXPECT_NE(why_no_mesh(extents({{Axis::kReplicate, INT32_MAX},
                                 {Axis::kShard, INT32_MAX},
                                 {Axis::kTensor, INT32_MAX}}),
                        4)
                .find("and there are 4"),
            std::string::npos);
}

TEST(Mesh, RefusesPlacesOutside) {
  const Mesh mesh = Mesh::create(extents({{Axis::kTensor, 2}}), 2).value();
  EXPECT_THROW((void)mesh.coordinates(Rank{2}), LogicFault);
  EXPECT_THROW((void)mesh.coordinates(kNoRank), LogicFault);
  Coordinates outside;
  outside[Axis::kTensor] = 2;
  EXPECT_THROW((void)mesh.rank(outside), LogicFault);
}

}  // namespace
}  // namespace muster::layout
