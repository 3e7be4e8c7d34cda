#include "muster/comm/op.h"

#include <fmt/format.h>

namespace muster::comm {
namespace {

template <class... Cases>
struct Match : Cases... {
  using Cases::operator()...;
};

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

}  // namespace

std::string_view name(const Op& op) noexcept {
  static constexpr std::string_view kNames[] = {"all_reduce", "reduce_scatter", "all_gather",
                                                "broadcast",  "all_to_all",     "send",
                                                "recv",       "barrier"};
  return kNames[op.index()];
}

std::string describe(const Op& op) {
  const auto operand = Match{
      [](const AllReduce& o) {
        return o.tree ? fmt::format(" sum in the tree of {} leaves {}", o.tree->leaves(),
                                    describe(o.buffer))
                      : fmt::format(" {} {}", name(o.reduce), describe(o.buffer));
      },
      [](const ReduceScatter& o) {
        return fmt::format(" {} {}", name(o.reduce), describe(o.output));
      },
      [](const AllGather& o) { return fmt::format(" {}", describe(o.input)); },
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
  const auto* reduce = std::get_if<AllReduce>(&op);
  if (reduce == nullptr || !reduce->tree || reduce->buffer.shape.empty()) return describe(op);
  AllReduce row = *reduce;
  row.buffer.shape.erase(row.buffer.shape.begin());
  return describe(Op(std::move(row)));
}

}  // namespace muster::comm
