#include "muster/parallel/peers.h"

#include <gtest/gtest.h>

#include <mutex>
#include <vector>

#include "muster/parallel/testing/on_ranks.h"

namespace muster::parallel {
namespace {

using layout::Axis;

MeshPlace place_in(const layout::MeshExtents& extents, const comm::Group& group) {
  return {layout::Mesh::create(extents, group.size).value(), group};
}

// Two replicas of two stages of two shards: the peers of a stage, the copies of a shard next to
// each other.
TEST(Peers, AreTheRanksWithTheSamePartByShards) {
  layout::MeshExtents extents;
  extents[Axis::kReplicate] = extents[Axis::kPipeline] = extents[Axis::kShard] = 2;
  std::mutex mutex;
  std::vector<std::int32_t> in_all(8, -1), in_shards(8, -1), in_copies(8, -1);
  on_ranks(8, [&](const std::shared_ptr<comm::Communicator>& ranks) {
    const MeshPlace place = place_in(extents, ranks->group());
    const Peers peers = Peers::connect(ranks, place, {Axis::kReplicate, Axis::kShard}).value();
    EXPECT_EQ(peers.shards(), 2);
    EXPECT_EQ(peers.copies(), 2);
    // Ranks 0 … 7 are (replica, stage, shard); the first of each replica's computes two slices.
    EXPECT_EQ(peers.owners({Rank{0}, Rank{1}, Rank{4}, Rank{5}}),
              (comm::LeafOwners{Rank{0}, Rank{2}, Rank{1}, Rank{3}}));
    const std::lock_guard lock(mutex);
    const auto me = static_cast<std::size_t>(to_int(ranks->group().rank));
    in_all[me] = to_int(peers.all()->group().rank);
    in_shards[me] = to_int(peers.one_of_each()->group().rank);
    in_copies[me] = to_int(peers.alike()->group().rank);
  });
  EXPECT_EQ(in_all, (std::vector{0, 2, 0, 2, 1, 3, 1, 3}));
  EXPECT_EQ(in_shards, (std::vector{0, 1, 0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(in_copies, (std::vector{0, 0, 0, 0, 1, 1, 1, 1}));
}

// Nobody is asked to divide where there is nothing to divide.
TEST(Peers, OfAllRanksInTheirOrderAreTheCommunicatorItself) {
  layout::MeshExtents extents;
  extents[Axis::kShard] = 3;
  const auto ranks = comm::create_loopback(3);
  const MeshPlace place = place_in(extents, ranks[1]->group());
  const Peers peers = Peers::connect(ranks[1], place, {Axis::kReplicate, Axis::kShard}).value();
  EXPECT_EQ(peers.all(), ranks[1]);
  EXPECT_EQ(peers.one_of_each(), ranks[1]);
  EXPECT_EQ(peers.copies(), 1);
}

}  // namespace
}  // namespace muster::parallel
