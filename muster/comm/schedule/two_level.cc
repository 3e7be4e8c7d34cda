// Schedules in two levels: inside each host, and between hosts one rank of each. The ranks with the
// same place on their hosts are a column; each column carries its share of the bytes between hosts,
// so that all ranks of a host send. A host may have more ranks than another: those beyond the last
// column take part inside their host only.

#include "muster/comm/schedule/plan.h"

namespace muster::comm {
namespace {

// A rank among those of its host, and, where it is in a column, among those.
class Levels {
 public:
  Levels(const Topology& topology, Rank rank)
      : topology_(topology), host_(topology.host_of(rank)), place_(topology.place_of(rank)) {}

  std::span<const std::int32_t> neighbours() const { return topology_.members(host_); }
  Position inside() const { return {Rank{place_}, static_cast<std::int32_t>(neighbours().size())}; }
  bool in_column() const { return place_ < topology_.columns(); }
  std::span<const std::int32_t> column() const { return topology_.column(place_); }
  Position between() const { return {Rank{host_}, topology_.hosts()}; }
  std::int32_t host() const { return host_; }
  std::int32_t place() const { return place_; }

 private:
  const Topology& topology_;
  const std::int32_t host_;
  const std::int32_t place_;
};

// What the ranks of one host share out: each column's part, nothing for ranks beyond.
Blocks column_parts(const Slice& all, std::int32_t columns, std::int32_t ranks) {
  Blocks parts = even_blocks(all, columns);
  parts.resize(static_cast<std::size_t>(ranks), {all.space, all.begin + all.count, 0});
  return parts;
}

// Sums to the first rank of each host, and from there.
void reduce_over_leaders(Plan& plan, const Method& method, const Levels& levels,
                         std::span<const std::int32_t> leaders, const Slice& all) {
  plan.among(levels.neighbours());
  plan_tree_reduce(plan, levels.inside(), all);
  if (levels.place() == 0) {
    plan.among(leaders);
    plan_all_reduce(plan, method.outer, levels.between(), all);
  }
  plan.among(levels.neighbours());
  plan_broadcast(plan, Algorithm::kTree, levels.inside(), 0, all);
}

// Rows of ranks' blocks, ordered by column, then by host, then by place: what a column carries is
// together, and in it what goes to a host.
class Arranged {
 public:
  Arranged(const Topology& topology, const Blocks& in_rank_order, Slice work)
      : blocks_(in_rank_order.size()),
        hosts_(static_cast<std::size_t>(topology.columns())),
        columns_(static_cast<std::size_t>(topology.columns())) {
    std::int64_t at = work.begin;
    for (std::int32_t c = 0; c < topology.columns(); ++c) {
      const std::int64_t column_begin = at;
      for (std::int32_t h = 0; h < topology.hosts(); ++h) {
        const std::int64_t host_begin = at;
        const auto members = topology.members(h);
        for (auto place = static_cast<std::size_t>(c); place < members.size();
             place += static_cast<std::size_t>(topology.columns())) {
          const auto rank = static_cast<std::size_t>(members[place]);
          order_.push_back(rank);
          blocks_[rank] = {work.space, at, in_rank_order[rank].count};
          at += blocks_[rank].count;
        }
        hosts_[static_cast<std::size_t>(c)].push_back({work.space, host_begin, at - host_begin});
      }
      columns_[static_cast<std::size_t>(c)] = {work.space, column_begin, at - column_begin};
    }
  }

  const Slice& block(Rank rank) const { return blocks_[static_cast<std::size_t>(to_int(rank))]; }
  const Blocks& of_column(std::int32_t column) const {  // by host
    return hosts_[static_cast<std::size_t>(column)];
  }
  Blocks columns(std::int32_t ranks) const {  // of a host with so many ranks
    Blocks all = columns_;
    const Slice& last = columns_.back();
    all.resize(static_cast<std::size_t>(ranks), {last.space, last.begin + last.count, 0});
    return all;
  }

  // Copies all blocks here, or from here; those that are neighbours on both sides at once.
  void fill(Plan& plan, const Blocks& from) const { move(plan, from, true); }
  void empty(Plan& plan, const Blocks& to) const { move(plan, to, false); }

 private:
  void move(Plan& plan, const Blocks& other, bool here) const {
    Slice mine{};
    Slice theirs{};
    const auto flush = [&] { here ? plan.copy(mine, theirs) : plan.copy(theirs, mine); };
    for (const std::size_t rank : order_) {
      if (other[rank].begin != theirs.begin + theirs.count || theirs.count == 0) {
        flush();
        mine = blocks_[rank];
        theirs = other[rank];
      } else {
        mine.count += blocks_[rank].count;
        theirs.count += other[rank].count;
      }
    }
    flush();
  }

  std::vector<std::size_t> order_;
  Blocks blocks_;              // by rank
  std::vector<Blocks> hosts_;  // by column
  Blocks columns_;
};

// The ranks of my host whose blocks my column carries besides mine.
std::vector<std::int32_t> carried(const Levels& levels, std::int32_t columns) {
  std::vector<std::int32_t> places;
  const auto count = static_cast<std::int32_t>(levels.neighbours().size());
  for (std::int32_t place = levels.place() + columns; place < count; place += columns)
    places.push_back(place);
  return places;
}

Rank neighbour(const Levels& levels, std::int32_t place) {
  return Rank{levels.neighbours()[static_cast<std::size_t>(place)]};
}

Schedule scatter_in_levels(const Method& method, const Topology& topology, Rank rank,
                           const Blocks& input) {
  Plan plan;
  const Levels levels(topology, rank);
  const Slice work = plan.scratch(input.back().begin + input.back().count - input.front().begin);
  const Arranged arranged(topology, input, work);
  const Slice output{Space::kOutput, 0, arranged.block(rank).count};
  arranged.fill(plan, input);
  plan.among(levels.neighbours());
  plan_reduce_scatter(plan, method.inner, levels.inside(), arranged.columns(levels.inside().size));
  if (!levels.in_column()) {
    plan.recv(levels.place() % topology.columns(), output);
    return plan.take();
  }
  plan.among(levels.column());
  plan_reduce_scatter(plan, method.outer, levels.between(), arranged.of_column(levels.place()));
  plan.among(levels.neighbours());
  for (const std::int32_t place : carried(levels, topology.columns()))
    plan.send(place, arranged.block(neighbour(levels, place)));
  plan.copy(output, arranged.block(rank));
  return plan.take();
}

Schedule gather_in_levels(const Method& method, const Topology& topology, Rank rank,
                          const Blocks& output) {
  Plan plan;
  const Levels levels(topology, rank);
  const Slice work = plan.scratch(output.back().begin + output.back().count - output.front().begin);
  const Arranged arranged(topology, output, work);
  plan.copy(arranged.block(rank), {Space::kInput, 0, arranged.block(rank).count});
  plan.among(levels.neighbours());
  if (levels.in_column()) {
    for (const std::int32_t place : carried(levels, topology.columns()))
      plan.recv(place, arranged.block(neighbour(levels, place)));
    plan.among(levels.column());
    plan_all_gather(plan, method.outer, levels.between(), arranged.of_column(levels.place()));
    plan.among(levels.neighbours());
  } else {
    plan.send(levels.place() % topology.columns(), arranged.block(rank));
  }
  plan_all_gather(plan, method.inner, levels.inside(), arranged.columns(levels.inside().size));
  arranged.empty(plan, output);
  return plan.take();
}

}  // namespace

Schedule two_level_all_reduce_schedule(const Method& method, const Topology& topology, Rank rank,
                                       std::int64_t count) {
  Plan plan;
  const Levels levels(topology, rank);
  const Slice all{Space::kOutput, 0, count};
  if (method.inner == Algorithm::kTree) {
    reduce_over_leaders(plan, method, levels, topology.column(0), all);
    return plan.take();
  }
  const Blocks parts = column_parts(all, topology.columns(), levels.inside().size);
  plan.among(levels.neighbours());
  plan_reduce_scatter(plan, method.inner, levels.inside(), parts);
  if (levels.in_column()) {
    plan.among(levels.column());
    plan_all_reduce(plan, method.outer, levels.between(),
                    parts[static_cast<std::size_t>(levels.place())]);
    plan.among(levels.neighbours());
  }
  plan_all_gather(plan, method.inner, levels.inside(), parts);
  return plan.take();
}

Schedule two_level_reduce_scatter_schedule(const Method& method, const Topology& topology,
                                           Rank rank, const Shards& shards) {
  return scatter_in_levels(method, topology, rank,
                           shard_blocks({Space::kInput, 0, shards.count()}, shards));
}

Schedule two_level_all_gather_schedule(const Method& method, const Topology& topology, Rank rank,
                                       const Shards& shards) {
  return gather_in_levels(method, topology, rank,
                          shard_blocks({Space::kOutput, 0, shards.count()}, shards));
}

Schedule two_level_broadcast_schedule(const Method& method, const Topology& topology, Rank rank,
                                      Rank root, std::int64_t count) {
  Plan plan;
  const Levels levels(topology, rank);
  const Slice all{Space::kOutput, 0, count};
  // The root speaks for its host, the first rank for each other.
  std::vector<std::int32_t> heads(topology.column(0).begin(), topology.column(0).end());
  const std::int32_t first = topology.host_of(root);
  heads[static_cast<std::size_t>(first)] = to_int(root);
  const Rank head{heads[static_cast<std::size_t>(levels.host())]};
  if (rank == head) {
    plan.among(heads);
    plan_broadcast(plan, method.outer, levels.between(), first, all);
  }
  plan.among(levels.neighbours());
  plan_broadcast(plan, method.inner, levels.inside(), topology.place_of(head), all);
  return plan.take();
}

}  // namespace muster::comm
