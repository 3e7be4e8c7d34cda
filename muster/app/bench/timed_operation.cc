#include "muster/app/bench/timed_operation.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/app/bench/test_values.h"

namespace muster::app {
namespace {

TensorView view(DType dtype, std::int64_t count, std::span<std::byte> memory) {
  return {dtype, {count}, memory.first(static_cast<std::size_t>(count) * size_of(dtype))};
}

bool in_place(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kBroadcast;
}

comm::Op make_op(Collective collective, const TensorView& input, const TensorView& output) {
  switch (collective) {
    case Collective::kAllReduce:
      return comm::AllReduce{output};
    case Collective::kReduceScatter:
      return comm::ReduceScatter{.output = output, .input = input};
    case Collective::kAllGather:
      return comm::AllGather{.output = output, .input = input};
    case Collective::kBroadcast:
      return comm::Broadcast{output};
    case Collective::kAllToAll:
      return comm::AllToAll{.output = output, .input = input};
  }
  return comm::Barrier{};
}

std::uint64_t scaled(std::uint64_t bytes, double by) {
  return static_cast<std::uint64_t>(static_cast<double>(bytes) * by);
}

}  // namespace

TimedOperation::TimedOperation(Collective collective, std::uint64_t bytes, DType dtype,
                               comm::Group group, BenchBuffers buffers)
    : collective_(collective), group_(group) {
  const auto width = static_cast<std::uint64_t>(size_of(dtype));
  const std::int64_t share = std::max<std::int64_t>(
      1, static_cast<std::int64_t>(bytes / width) / (in_place(collective) ? 1 : group.size));
  const std::int64_t all = in_place(collective) ? share : share * group.size;
  output_ = view(dtype, collective == Collective::kReduceScatter ? share : all, buffers.first);
  input_ = in_place(collective)
               ? output_
               : view(dtype, collective == Collective::kAllGather ? share : all, buffers.second);
  op_ = make_op(collective_, input_, output_);
}

std::uint64_t TimedOperation::bytes() const noexcept {
  return std::max(input_.bytes.size(), output_.bytes.size());
}

// What this rank has as element `i` before.
double TimedOperation::brought(std::int64_t i) const noexcept {
  const std::int32_t me = to_int(group_.rank);
  switch (collective_) {
    case Collective::kAllReduce:
    case Collective::kReduceScatter:
      return summand(me, group_.size, i);
    case Collective::kAllGather:
      return word(me, 0, i);
    case Collective::kBroadcast:
      return me == 0 ? word(0, 0, i) : 0;
    case Collective::kAllToAll: {
      const std::int64_t block = input_.count() / group_.size;
      return word(me, static_cast<std::int32_t>(i / block), i % block);
    }
  }
  return 0;
}

// And after.
double TimedOperation::expected(std::int64_t i) const noexcept {
  const std::int32_t me = to_int(group_.rank);
  const std::int64_t block = output_.count() / group_.size;
  switch (collective_) {
    case Collective::kAllReduce:
      return sum_at(i);
    case Collective::kReduceScatter:
      return sum_at(me * output_.count() + i);
    case Collective::kAllGather:
      return word(static_cast<std::int32_t>(i / block), 0, i % block);
    case Collective::kBroadcast:
      return word(0, 0, i);
    case Collective::kAllToAll:
      return word(static_cast<std::int32_t>(i / block), me, i % block);
  }
  return 0;
}

void TimedOperation::fill() const {
  if (!in_place(collective_)) std::ranges::fill(output_.bytes, std::byte{0});
  for (std::int64_t i = 0; i < input_.count(); ++i) put(input_, i, brought(i));
}

void TimedOperation::clear() const {
  std::ranges::fill(input_.bytes, std::byte{0});
  std::ranges::fill(output_.bytes, std::byte{0});
}

Status TimedOperation::check() const {
  for (std::int64_t i = 0; i < output_.count(); ++i) {
    if (get(output_, i) == expected(i)) continue;
    return fail(
        ErrorCode::kInternal,
        fmt::format("[bench/comm] {} of {} bytes on rank {} of {}: element {} is {} instead "
                    "of {}; please report it",
                    to_string(collective_), bytes(), to_int(group_.rank), group_.size, i,
                    get(output_, i), expected(i)));
  }
  return ok();
}

std::uint64_t TimedOperation::bytes_to_copy() const noexcept {
  // A copy reads as much as it writes; a rank reads everybody's elements of its part of a sum.
  if (collective_ != Collective::kReduceScatter) return bytes();
  return scaled(bytes(), (1 + 1.0 / group_.size) / 2);
}

std::uint64_t TimedOperation::bytes_to_send() const noexcept {
  return scaled(bytes(), sent_share(collective_, group_.size));
}

double sent_share(Collective collective, std::int32_t ranks) noexcept {
  if (collective == Collective::kBroadcast) return ranks == 1 ? 0 : 1;
  const double others = (ranks - 1.0) / ranks;
  return collective == Collective::kAllReduce ? 2 * others : others;
}

}  // namespace muster::app
