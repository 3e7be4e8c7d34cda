#include "muster/comm/engine/signature.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

#include "muster/base/checksum.h"

namespace muster::comm {
namespace {

void set_tensor(Signature& s, DType dtype, std::span<const std::int64_t> shape) {
  s.dtype = static_cast<std::uint8_t>(dtype);
  s.dimensions = static_cast<std::uint8_t>(shape.size());
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i < s.shape.size())
      s.shape[i] = shape[i];
    else
      s.shape.back() *= shape[i];
  }
}

void set_tensor(Signature& s, const TensorView& tensor) {
  set_tensor(s, tensor.dtype, tensor.shape);
}

// Of [rows, …], which may differ in the rows.
void set_row(Signature& s, const TensorView& rows) {
  const std::span<const std::int64_t> shape(rows.shape);
  set_tensor(s, rows.dtype, shape.subspan(std::min<std::size_t>(shape.size(), 1)));
}

std::uint64_t shares_of(const SumTree* tree, const Shards* shards) {
  if (tree == nullptr && shards == nullptr) return 0;
  Checksum sum;
  if (tree != nullptr) {
    const std::uint64_t owners = tree->fingerprint();
    sum.add(std::as_bytes(std::span(&owners, 1)));
  }
  if (shards != nullptr) sum.add(std::as_bytes(std::span(shards->begin)));
  return sum.value() | 1;
}

void fill(Signature& s, const AllReduce& op) {
  s.reduce = static_cast<std::uint8_t>(op.reduce);
  s.shares = shares_of(op.tree.get(), nullptr);
  if (!op.tree) return set_tensor(s, op.buffer);
  s.root_or_leaves = op.tree->leaves();
  set_row(s, op.buffer);
}

void fill(Signature& s, const ReduceScatter& op) {
  s.reduce = static_cast<std::uint8_t>(op.reduce);
  s.shares = shares_of(op.tree.get(), op.shards.get());
  if (op.tree) s.root_or_leaves = op.tree->leaves();
  op.shards ? set_row(s, op.input) : set_tensor(s, op.output);
}

void fill(Signature& s, const AllGather& op) {
  s.shares = shares_of(nullptr, op.shards.get());
  set_tensor(s, op.shards ? op.output : op.input);
}

void fill(Signature& s, const Broadcast& op) {
  s.root_or_leaves = to_int(op.root);
  set_tensor(s, op.buffer);
}

void fill(Signature& s, const AllToAll& op) { set_tensor(s, op.input); }
void fill(Signature&, const Send&) {}  // no collective
void fill(Signature&, const Recv&) {}
void fill(Signature&, const Barrier&) {}

template <class Kind, std::size_t at = 0>
constexpr std::size_t index_of() {
  if constexpr (std::is_same_v<Kind, std::variant_alternative_t<at, Op>>)
    return at;
  else
    return index_of<Kind, at + 1>();
}

// Empty where nothing is wished.
std::string describe_wish(const Signature& s) {
  const auto of = [&](std::size_t level) { return name(static_cast<Algorithm>(s.wish[level])); };
  if (s.wish[1] != 0 || s.wish[2] != 0) return fmt::format(" by {}/{}/{}", of(0), of(1), of(2));
  return s.wish[0] == 0 ? std::string() : fmt::format(" by {}", of(0));
}

bool is_dtype(std::uint8_t dtype) { return dtype <= static_cast<std::uint8_t>(DType::kU8); }

}  // namespace

Signature signature_of(const Op& op, const OpOptions& options) {
  Signature s;
  s.op = static_cast<std::uint8_t>(op.index());
  std::visit([&s](const auto& o) { fill(s, o); }, op);
  s.wish = {static_cast<std::uint8_t>(options.algorithm), static_cast<std::uint8_t>(options.inner),
            static_cast<std::uint8_t>(options.outer)};
  std::memcpy(s.label.data(), options.label.data(),
              std::min(options.label.size(), s.label.size() - 1));
  s.check = checksum_of(std::as_bytes(std::span(&s, 1)).subspan(sizeof(s.check)));
  return s;
}

// It may have come from another process: anything may be in it.
std::string describe(const Signature& s) {
  if (s.op >= std::variant_size_v<Op>) return "nothing known";
  std::string text(name_of_op(s.op));
  const bool reduces = s.op <= 1;
  if (reduces) text += fmt::format(" {}", name(static_cast<Reduce>(s.reduce)));
  if (reduces && s.root_or_leaves > 0)
    text += fmt::format(" in the tree of {} leaves", s.root_or_leaves);
  if (s.op != index_of<Barrier>()) {
    const auto shown = std::min<std::size_t>(s.dimensions, s.shape.size());
    text +=
        fmt::format(" {} [{}]", is_dtype(s.dtype) ? to_string(static_cast<DType>(s.dtype)) : "?",
                    fmt::join(s.shape.begin(), s.shape.begin() + shown, ", "));
  }
  if (s.op == index_of<Broadcast>()) text += fmt::format(" from rank {}", s.root_or_leaves);
  text += describe_wish(s);
  const auto end = std::ranges::find(s.label, '\0');
  const std::string_view label(s.label.data(), static_cast<std::size_t>(end - s.label.begin()));
  return label.empty() ? text : fmt::format("{} ({})", text, label);
}

Error different_calls(const Group& group, std::uint64_t sequence, const Caller& a, const Caller& b,
                      Rank culprit) {
  const Caller& low = a.rank < b.rank ? a : b;
  const Caller& high = a.rank < b.rank ? b : a;
  std::string theirs = describe(high.called);
  if (theirs == describe(low.called)) theirs = "the same with other owners of slices or shards";
  return fail(
      ErrorCode::kInvalid,
      fmt::format("[comm/order] rank {} calls {}, rank {} calls {}, both as #{} of generation "
                  "{}: all ranks must call the same operations in the same order",
                  to_int(low.rank), describe(low.called), to_int(high.rank), theirs, sequence,
                  to_int(group.generation)),
      culprit);
}

Status compare_calls(const Group& group, std::uint64_t sequence,
                     const std::vector<Signature>& calls) {
  const auto alike = [&](const Signature& call) {
    return std::ranges::count(calls, call.check, &Signature::check);
  };
  if (alike(calls.front()) == group.size) return ok();
  // What most call; of equals what the lowest rank does.
  const auto usual = std::ranges::max_element(calls, {}, alike);
  const auto other = std::ranges::find_if(
      calls, [&](const Signature& call) { return call.check != usual->check; });
  const auto caller = [&](auto call) {
    return Caller{Rank{static_cast<std::int32_t>(call - calls.begin())}, *call};
  };
  return different_calls(group, sequence, caller(usual), caller(other), caller(other).rank);
}

}  // namespace muster::comm
