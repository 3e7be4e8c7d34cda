// A ring in both directions at once: a block comes to its owner, or from it, the shorter way round,
// so that there are half as many rounds as in a ring, with the same bytes (Chan, Heimlich,
// Purkayastha, van de Geijn 2007, "Collective communication: theory, practice, and experience").

#include <algorithm>

#include "muster/comm/schedule/plan.h"

namespace muster::comm {
namespace {

// How many ranks a block passes on its way to the right, and to the left.
struct Ways {
  explicit Ways(std::int32_t size) : right(size / 2), left((size - 1) / 2) {}
  std::int32_t right;
  std::int32_t left;
};

// The blocks as seen from one rank.
class Around {
 public:
  Around(Position me, const Blocks& blocks) : me_(me), blocks_(blocks) {}

  std::int32_t peer(std::int32_t distance) const {
    return wrap(to_int(me_.rank) + distance, me_.size);
  }
  const Slice& block(std::int32_t distance) const {
    return blocks_[static_cast<std::size_t>(peer(distance))];
  }

 private:
  const Position me_;
  const Blocks& blocks_;
};

void take_and_add(Plan& plan, std::int32_t from, const Slice& block, const Slice& room) {
  const Slice received{room.space, room.begin, block.count};
  plan.recv(from, received);
  plan.reduce(block, received);
}

}  // namespace

// In round k the sum for the block `right - k` ahead goes on to the right, that for the one as far
// behind to the left.
void plan_bidirectional_reduce_scatter(Plan& plan, Position me, const Blocks& blocks) {
  const Around around(me, blocks);
  const Ways ways(me.size);
  const auto largest = std::ranges::max_element(blocks, {}, &Slice::count)->count;
  const Slice from_left = plan.scratch(largest);
  const Slice from_right = plan.scratch(largest);
  for (std::int32_t k = 0; k < ways.right; ++k) {
    plan.send(around.peer(1), around.block(ways.right - k));
    if (k < ways.left) plan.send(around.peer(-1), around.block(k - ways.left));
    take_and_add(plan, around.peer(-1), around.block(ways.right - k - 1), from_left);
    if (k < ways.left)
      take_and_add(plan, around.peer(1), around.block(k + 1 - ways.left), from_right);
  }
}

void plan_bidirectional_all_gather(Plan& plan, Position me, const Blocks& blocks) {
  const Around around(me, blocks);
  const Ways ways(me.size);
  for (std::int32_t k = 0; k < ways.right; ++k) {
    plan.send(around.peer(1), around.block(-k));
    if (k < ways.left) plan.send(around.peer(-1), around.block(k));
    plan.recv(around.peer(-1), around.block(-k - 1));
    if (k < ways.left) plan.recv(around.peer(1), around.block(k + 1));
  }
}

}  // namespace muster::comm
