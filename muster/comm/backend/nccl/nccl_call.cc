#include "muster/comm/backend/nccl/nccl_call.h"

#include "muster/base/check.h"

namespace muster::comm {
namespace {

std::size_t elements(const TensorView& view) { return static_cast<std::size_t>(view.count()); }

std::vector<std::size_t> shards_of(const std::shared_ptr<const Shards>& shards) {
  if (!shards) return {};
  return {shards->begin.begin(), shards->begin.end()};
}

// Whoever has the total in the host's memory divides it there, exactly.
void choose_average(NcclCall& made, Reduce reduce) {
  const DType dtype = made.output.dtype;
  const bool whole = dtype == DType::kI32 || dtype == DType::kI64 || dtype == DType::kU8;
  made.divides = reduce == Reduce::kAvg && (whole || made.output.device == Device::kCpu);
  made.call.reduce = static_cast<int>(made.divides ? Reduce::kSum : reduce);
}

struct Teller {
  const Group& group;
  NcclCall made{};

  void operator()(const AllReduce& op) {
    in_place(op.buffer);
    choose_average(made, op.reduce);
  }
  void operator()(const ReduceScatter& op) {
    between(op.input, op.output);
    made.call.count = elements(op.output);
    made.shards = shards_of(op.shards);
    choose_average(made, op.reduce);
  }
  void operator()(const AllGather& op) {
    between(op.input, op.output);
    made.call.count = elements(op.input);
    made.shards = shards_of(op.shards);
  }
  void operator()(const Broadcast& op) {
    in_place(op.buffer);
    made.reads = op.root == group.rank;
    made.call.root = to_int(op.root);
  }
  void operator()(const AllToAll& op) {
    between(op.input, op.output);
    made.call.count = elements(op.input) / static_cast<std::size_t>(group.size);
  }
  void operator()(const Barrier&) { made.reads = false; }
  void operator()(const Send&) { MUSTER_CHECK(false, "messages are not NCCL's"); }
  void operator()(const Recv&) { MUSTER_CHECK(false, "messages are not NCCL's"); }

 private:
  void in_place(const TensorView& buffer) {
    between(buffer, buffer);
    made.in_place = true;
    made.call.count = elements(buffer);
  }
  void between(const TensorView& input, const TensorView& output) {
    made.input = input;
    made.output = output;
    made.call.dtype = static_cast<int>(output.dtype);
    made.call.width = size_of(output.dtype);
  }
};

}  // namespace

NcclCall nccl_call_of(const Op& op, const Group& group) {
  Teller teller{group};
  std::visit(teller, op);
  teller.made.call.op = static_cast<int>(op.index());
  return std::move(teller.made);
}

bool is_ordered(const Op& op) noexcept {
  if (const auto* reduce = std::get_if<AllReduce>(&op)) return reduce->tree != nullptr;
  const auto* scatter = std::get_if<ReduceScatter>(&op);
  return scatter != nullptr && scatter->tree != nullptr;
}

}  // namespace muster::comm
