// Trees of ranks: the binomial tree, the chain (a tree of one branch, in pieces) and the double
// binary tree.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "muster/base/check.h"
#include "muster/base/round_up.h"
#include "muster/comm/schedule/plan.h"

namespace muster::comm {
namespace {

void binomial_broadcast(Plan& plan, Position me, std::int32_t root, Slice all) {
  const std::int32_t v = wrap(to_int(me.rank) - root, me.size);
  const auto above = static_cast<std::int32_t>(std::bit_ceil(static_cast<std::uint32_t>(me.size)));
  const std::int32_t lowest = v == 0 ? above : (v & -v);
  if (v != 0) plan.recv(wrap(v - lowest + root, me.size), all);
  for (std::int32_t bit = lowest / 2; bit > 0; bit /= 2)
    if (v + bit < me.size) plan.send(wrap(v + bit + root, me.size), all);
}

// Pieces, so that a chain's links all work at once; not so many that a plan for them gets long.
constexpr std::int64_t kChainPiece = 32 * 1024;  // elements
constexpr std::int64_t kMostChainPieces = 256;

void chain_broadcast(Plan& plan, Position me, std::int32_t root, Slice all) {
  const std::int32_t v = wrap(to_int(me.rank) - root, me.size);
  const std::int64_t length = std::max(kChainPiece, ceil_div(all.count, kMostChainPieces));
  for (std::int64_t begin = 0; begin < all.count; begin += length) {
    const Slice piece{all.space, all.begin + begin, std::min(length, all.count - begin)};
    if (v > 0) plan.recv(wrap(v - 1 + root, me.size), piece);
    if (v + 1 < me.size) plan.send(wrap(v + 1 + root, me.size), piece);
  }
}

void direct_broadcast(Plan& plan, Position me, std::int32_t root, Slice all) {
  if (to_int(me.rank) != root) return plan.recv(root, all);
  for (std::int32_t k = 1; k < me.size; ++k) plan.send(wrap(root + k, me.size), all);
}

constexpr std::int32_t kNobody = -1;

// The in-order binary tree over [0, size): odd numbers are leaves, 0 is the root and has one child.
std::int32_t parent_in_order(std::int32_t v, std::int32_t size) {
  if (v == 0) return kNobody;
  const std::int32_t bit = v & -v;
  const std::int32_t up = (v ^ bit) | (bit << 1);
  return up < size ? up : v ^ bit;
}

std::vector<std::int32_t> children_in_order(std::int32_t v, std::int32_t size) {
  const auto all = static_cast<std::int32_t>(std::bit_ceil(static_cast<std::uint32_t>(size)));
  const std::int32_t bit = v == 0 ? all : v & -v;
  std::vector<std::int32_t> children;
  if (v != 0 && bit > 1) children.push_back(v - bit / 2);
  for (std::int32_t below = bit / 2; below > 0; below /= 2) {
    if (v + below >= size || parent_in_order(v + below, size) != v) continue;
    children.push_back(v + below);
    break;
  }
  return children;
}

// A rank's place in one of two trees. The second tree is the first one mirrored, so that whoever
// passes on in one is a leaf in the other. Of an odd number of ranks the last one hangs, as a leaf,
// from the roots of both, which have one child each.
struct TreePlace {
  std::int32_t parent = kNobody;
  std::vector<std::int32_t> children{};
  std::int32_t depth = 0;
};

TreePlace place_in(Position me, bool mirrored) {
  const std::int32_t rank = to_int(me.rank);
  const std::int32_t even = me.size - me.size % 2;
  const auto turn = [&](std::int32_t v) { return mirrored ? even - 1 - v : v; };
  TreePlace place;
  if (rank == even) return {turn(0), {}, 1};
  const std::int32_t v = turn(rank);
  for (const std::int32_t child : children_in_order(v, even)) place.children.push_back(turn(child));
  if (v == 0 && even != me.size) place.children.push_back(even);
  if (v != 0) place.parent = turn(parent_in_order(v, even));
  for (std::int32_t up = v; up != 0; up = parent_in_order(up, even)) ++place.depth;
  return place;
}

// How many pieces go up and down a tree of so many ranks: as many as balance what the first one
// takes to get through against what each costs by itself, as much as kPieceCost elements.
constexpr double kPieceCost = 8 * 1024;
constexpr double kMostPieces = 32;
std::int32_t pieces_of(std::int64_t count, std::int32_t size) {
  const auto levels = static_cast<double>(std::bit_width(static_cast<std::uint32_t>(size)));
  const double best = std::sqrt(2 * levels * static_cast<double>(count) / kPieceCost);
  return static_cast<std::int32_t>(std::clamp(best, 1.0, kMostPieces));
}

// One of the two trees, as one rank plays it: its half of the elements, in pieces. What is sent in
// one turn is taken in the next one, so that pieces follow each other, and between ranks that are
// neighbours in both trees messages leave in the order in which they are taken.
class HalfTree {
 public:
  HalfTree(Plan& plan, Position me, bool mirrored, Slice half)
      : plan_(plan),
        place_(place_in(me, mirrored)),
        height_(std::bit_width(static_cast<std::uint32_t>(me.size - 1))),
        half_(half),
        pieces_(pieces_of(half.count, me.size)),
        room_(plan.scratch(place_.children.empty() ? 0 : cut(half, pieces_, 0).count)) {}

  std::int32_t turns() const { return pieces_ + 2 * height_; }
  void turn(std::int32_t number) {
    const std::int32_t going = number - (height_ - place_.depth);
    if (going >= 0 && going < pieces_) up(cut(half_, pieces_, going));
    const std::int32_t coming = number - (height_ + place_.depth);
    if (coming >= 0 && coming < pieces_) down(cut(half_, pieces_, coming));
  }

 private:
  void up(const Slice& piece) {
    const Slice received{room_.space, room_.begin, piece.count};
    for (const std::int32_t child : place_.children) {
      plan_.recv(child, received);
      plan_.reduce(piece, received);
    }
    if (place_.parent != kNobody) plan_.send(place_.parent, piece);
  }
  void down(const Slice& piece) {
    if (place_.parent != kNobody) plan_.recv(place_.parent, piece);
    for (const std::int32_t child : place_.children) plan_.send(child, piece);
  }

  Plan& plan_;
  const TreePlace place_;
  const std::int32_t height_;  // that no rank's depth exceeds
  const Slice half_;
  const std::int32_t pieces_;
  const Slice room_;
};

}  // namespace

// Ranks counted from the root of a binomial tree; the parent of v is v without its lowest bit.
void plan_tree_reduce(Plan& plan, Position me, Slice all) {
  const std::int32_t v = to_int(me.rank);
  const Slice received = plan.scratch(all.count);
  for (std::int32_t bit = 1; bit < me.size; bit *= 2) {
    if ((v & bit) != 0) return plan.send(v - bit, all);
    if (v + bit >= me.size) continue;
    plan.recv(v + bit, received);
    plan.reduce(all, received);
  }
}

void plan_double_tree_all_reduce(Plan& plan, Position me, Slice all) {
  if (me.size == 1) return;
  std::array<HalfTree, 2> trees{HalfTree(plan, me, false, cut(all, 2, 0)),
                                HalfTree(plan, me, true, cut(all, 2, 1))};
  const std::int32_t turns = std::max(trees[0].turns(), trees[1].turns());
  for (std::int32_t number = 0; number < turns; ++number)
    for (HalfTree& tree : trees) tree.turn(number);
}

void plan_broadcast(Plan& plan, Algorithm algorithm, Position me, std::int32_t root, Slice all) {
  if (algorithm == Algorithm::kDirect) return direct_broadcast(plan, me, root, all);
  if (algorithm == Algorithm::kRing) return chain_broadcast(plan, me, root, all);
  MUSTER_CHECK(algorithm == Algorithm::kTree, "a broadcast has no such schedule");
  binomial_broadcast(plan, me, root, all);
}

}  // namespace muster::comm
