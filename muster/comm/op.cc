#include "muster/comm/op.h"

#include <fmt/format.h>

namespace muster::comm {
namespace {

template <class... Cases>
struct Match : Cases... {
  using Cases::operator()...;
};

}  // namespace

std::string_view name(Reduce reduce) noexcept {
  switch (reduce) {
    case Reduce::kSum:
      return "sum";
    case Reduce::kAvg:
      return "avg";
    case Reduce::kMin:
      return "min";
    case Reduce::kMax:
      return "max";
    case Reduce::kProduct:
      return "product";
  }
  return "?";
}

std::string_view name(Algorithm algorithm) noexcept {
  static constexpr std::string_view kNames[] = {"auto",        "ring",
                                                "tree",        "halving_doubling",
                                                "direct",      "bidirectional_ring",
                                                "double_tree", "hierarchical",
                                                "pairwise",    "bruck"};
  const auto index = static_cast<std::size_t>(algorithm);
  return index < std::size(kNames) ? kNames[index] : "?";
}

std::string_view name_of_op(std::size_t index) noexcept {
  static constexpr std::string_view kNames[] = {"all_reduce", "reduce_scatter", "all_gather",
                                                "broadcast",  "all_to_all",     "send",
                                                "recv",       "barrier"};
  return index < std::size(kNames) ? kNames[index] : "?";
}

std::string_view name(const Op& op) noexcept { return name_of_op(op.index()); }

std::string describe(const Op& op) {
  const auto operand = Match{
      [](const AllReduce& o) {
        return o.tree ? fmt::format(" sum in the tree of {} leaves {}", o.tree->leaves(),
                                    describe(o.buffer))
                      : fmt::format(" {} {}", name(o.reduce), describe(o.buffer));
      },
      [](const ReduceScatter& o) {
        if (!o.shards) return fmt::format(" {} {}", name(o.reduce), describe(o.output));
        return o.tree ? fmt::format(" sum in the tree of {} leaves, to shards of {}",
                                    o.tree->leaves(), describe(o.input))
                      : fmt::format(" {} to shards of {}", name(o.reduce), describe(o.input));
      },
      [](const AllGather& o) {
        return o.shards ? fmt::format(" of shards of {}", describe(o.output))
                        : fmt::format(" {}", describe(o.input));
      },
      [](const Broadcast& o) {
        return fmt::format(" {} from rank {}", describe(o.buffer), to_int(o.root));
      },
      [](const AllToAll& o) { return fmt::format(" {}", describe(o.input)); },
      [](const Send& o) {
        return fmt::format(" {} to rank {} tag {}", describe(o.tensor), to_int(o.to), o.tag);
      },
      [](const Recv& o) {
        return fmt::format(" {} from rank {} tag {}", describe(o.tensor), to_int(o.from), o.tag);
      },
      [](const Barrier&) { return std::string(); },
  };
  return fmt::format("{}{}", name(op), std::visit(operand, op));
}

std::string describe_for_all(const Op& op) {
  Op row = op;
  TensorView* rows = nullptr;
  if (auto* reduce = std::get_if<AllReduce>(&row); reduce != nullptr && reduce->tree)
    rows = &reduce->buffer;
  if (auto* scatter = std::get_if<ReduceScatter>(&row); scatter != nullptr && scatter->tree)
    rows = &scatter->input;
  if (rows != nullptr && !rows->shape.empty()) rows->shape.erase(rows->shape.begin());
  return describe(row);
}

}  // namespace muster::comm
