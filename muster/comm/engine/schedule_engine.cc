// Plays schedules over a transport.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>
#include <utility>

#include "muster/comm/engine/errors.h"
#include "muster/comm/engine/transport.h"
#include "muster/comm/reduce.h"

namespace muster::comm {
namespace {

// The memory and arithmetic of one collective.
struct Operands {
  std::span<std::byte> input;
  std::span<std::byte> output;
  DType dtype = DType::kU8;
  Reduce reduce = Reduce::kSum;
  bool reduces = false;
};

Operands operands_of(const Op& op) {
  if (const auto* o = std::get_if<AllReduce>(&op))
    return {{}, o->buffer.bytes, o->buffer.dtype, o->reduce, true};
  if (const auto* o = std::get_if<ReduceScatter>(&op))
    return {o->input.bytes, o->output.bytes, o->output.dtype, o->reduce, true};
  if (const auto* o = std::get_if<AllGather>(&op))
    return {o->input.bytes, o->output.bytes, o->output.dtype};
  if (const auto* o = std::get_if<Broadcast>(&op)) return {{}, o->buffer.bytes, o->buffer.dtype};
  if (const auto* o = std::get_if<AllToAll>(&op))
    return {o->input.bytes, o->output.bytes, o->output.dtype};
  return {};
}

// Whoever waits longer than a message usually takes tells what it calls.
constexpr Duration kWonder = std::chrono::milliseconds(50);

// No message is longer, so that frames stay within what a network accepts.
constexpr std::size_t kLongestMessage = std::size_t{4} << 20;
// Of collectives between hosts: so short that what a schedule does with one while the next arrives
// counts, so long that what each costs by itself does not.
constexpr std::size_t kSegment = std::size_t{512} << 10;

std::vector<std::span<std::byte>> pieces(std::span<std::byte> bytes,
                                         std::size_t longest = kLongestMessage) {
  std::vector<std::span<std::byte>> all{bytes.first(std::min(bytes.size(), longest))};
  for (std::size_t at = longest; at < bytes.size(); at += longest)
    all.push_back(bytes.subspan(at, std::min(longest, bytes.size() - at)));
  return all;
}

bool overlap(const Slice& a, const Slice& b) noexcept {
  return a.space == b.space && a.begin < b.begin + b.count && b.begin < a.begin + a.count;
}

// A receive, and those of the steps behind it that only need what it brings: each piece is reduced
// and passed on while the next ones arrive.
struct Passage {
  const ScheduleStep& recv;
  const ScheduleStep* reduce = nullptr;
  std::span<const ScheduleStep> sends{};

  std::size_t steps() const noexcept { return 1 + (reduce != nullptr ? 1 : 0) + sends.size(); }
};

// One schedule being played.
class Player {
 public:
  Player(Transport& transport, const Call& call, const Operands& operands, const Group& group,
         std::vector<std::byte>& scratch)
      : transport_(transport),
        call_(call),
        operands_(operands),
        me_(group.rank),
        scratch_(scratch),
        sent_(static_cast<std::size_t>(group.size)),
        received_(static_cast<std::size_t>(group.size)) {}

  Status play(const Schedule& schedule) {
    const auto bytes = static_cast<std::size_t>(schedule.scratch) * size_of(operands_.dtype);
    if (scratch_.size() < bytes) scratch_.resize(bytes);
    std::span<const ScheduleStep> left(schedule.steps);
    while (!left.empty()) {
      if (left.front().kind == ScheduleStep::Kind::kRecv) {
        const Passage passage = passage_at(left);
        MUSTER_TRY(play(passage));
        left = left.subspan(passage.steps());
      } else {
        MUSTER_TRY(play(left.front()));
        left = left.subspan(1);
      }
    }
    return transport_.settle(call_.deadline);
  }

 private:
  Status play(const ScheduleStep& step) {
    if (step.kind == ScheduleStep::Kind::kSend) return send(step);
    MUSTER_TRY(free(step.to));
    if (step.kind == ScheduleStep::Kind::kReduce)
      reduce(memory(step.to), memory(step.from));
    else
      copy(step);
    return ok();
  }

  // `steps`: what is left, a receive first.
  Passage passage_at(std::span<const ScheduleStep> steps) const {
    Passage passage{steps.front()};
    Slice whole = passage.recv.to;
    steps = steps.subspan(1);
    if (!steps.empty() && steps.front().kind == ScheduleStep::Kind::kReduce &&
        steps.front().from == whole && !overlap(steps.front().to, whole)) {
      passage.reduce = &steps.front();
      whole = passage.reduce->to;
      steps = steps.subspan(1);
    }
    const auto other = std::ranges::find_if_not(steps, [&](const ScheduleStep& step) {
      return step.kind == ScheduleStep::Kind::kSend && step.from == whole &&
             longest(step.peer) == longest(passage.recv.peer);
    });
    passage.sends = steps.first(static_cast<std::size_t>(other - steps.begin()));
    return passage;
  }

  Status play(const Passage& passage) {
    const Rank from = passage.recv.peer;
    MUSTER_TRY(free(passage.recv.to));
    auto passes = memory(passage.reduce != nullptr ? passage.reduce->to : passage.recv.to);
    bool first = true;
    for (const auto piece : pieces(memory(passage.recv.to), longest(from))) {
      MUSTER_TRY(take(from, next(received_, from), piece));
      const auto result = passes.first(piece.size());
      passes = passes.subspan(piece.size());
      if (passage.reduce != nullptr) {
        if (std::exchange(first, false)) MUSTER_TRY(free(passage.reduce->to));
        reduce(result, piece);
      }
      for (const ScheduleStep& step : passage.sends)
        MUSTER_TRY(transport_.post(step.peer, next(sent_, step.peer), result));
    }
    for (const ScheduleStep& step : passage.sends) leaving_.push_back(step.from);
    return ok();
  }

  Status send(const ScheduleStep& step) {
    leaving_.push_back(step.from);
    for (const auto piece : pieces(memory(step.from), longest(step.peer)))
      MUSTER_TRY(transport_.post(step.peer, next(sent_, step.peer), piece));
    return ok();
  }

  // Memory that a host shares has few places for messages, and takes none of them in parts.
  std::size_t longest(Rank peer) const {
    return transport_.topology().share_host(me_, peer) ? kLongestMessage : kSegment;
  }

  Status take(Rank from, MessageId id, std::span<std::byte> into) {
    Inbox& inbox = transport_.inbox();
    const Deadline soon = Deadline::after(inbox.clock(), kWonder);
    if (announced_ || call_.deadline.at() <= soon.at())
      return inbox.take(from, id, into, call_.deadline);
    Status taken = inbox.take(from, id, into, soon);
    if (taken || taken.error().code != ErrorCode::kTimeout) return taken;
    announced_ = true;
    transport_.announce();
    return inbox.take(from, id, into, call_.deadline);
  }

  void reduce(std::span<std::byte> to, std::span<const std::byte> from) const {
    comm::reduce(operands_.dtype, operands_.reduce, {to.data()}, to.data(), from.data(),
                 static_cast<std::int64_t>(to.size() / size_of(operands_.dtype)));
  }

  void copy(const ScheduleStep& step) {
    const auto from = memory(step.from);
    if (!from.empty()) std::memmove(memory(step.to).data(), from.data(), from.size());
  }

  // Before `slice` is written: what is still being sent from it must have left.
  Status free(const Slice& slice) {
    for (const Slice& leaving : leaving_) {
      if (!overlap(leaving, slice)) continue;
      leaving_.clear();
      return transport_.settle(call_.deadline);
    }
    return ok();
  }

  // Frames carry 32 bits of the sequence, far more than can be under way.
  MessageId next(std::vector<std::uint64_t>& so_far, Rank peer) const {
    return {static_cast<std::uint32_t>(call_.sequence),
            so_far[static_cast<std::size_t>(to_int(peer))]++};
  }

  std::span<std::byte> memory(const Slice& slice) {
    const std::span<std::byte> space = slice.space == Space::kInput    ? operands_.input
                                       : slice.space == Space::kOutput ? operands_.output
                                                                       : std::span(scratch_);
    const std::size_t width = size_of(operands_.dtype);
    return space.subspan(static_cast<std::size_t>(slice.begin) * width,
                         static_cast<std::size_t>(slice.count) * width);
  }

  Transport& transport_;
  const Call& call_;
  const Operands& operands_;
  const Rank me_;
  std::vector<std::byte>& scratch_;
  std::vector<std::uint64_t> sent_;  // messages so far, by peer
  std::vector<std::uint64_t> received_;
  std::vector<Slice> leaving_;  // posted since the last settle
  bool announced_ = false;
};

// How operations run, found once for those that are alike.
class Choices {
 public:
  Choices(const Topology& topology, const CostTable& costs) : topology_(topology), costs_(costs) {}

  Method of(const Op& op, const OpOptions& options) {
    const Method wish{options.algorithm, options.inner, options.outer};
    const Collective collective = representative(collective_of(op));
    const auto key =
        std::tuple(collective.kind, collective.count, collective.width, collective.root,
                   collective.ordered, wish.algorithm, wish.inner, wish.outer);
    const auto [place, fresh] = made_.try_emplace(key);
    if (fresh) place->second = choose_method(collective, wish, topology_, costs_);
    return place->second;
  }
  const CostTable& costs() const noexcept { return costs_; }

 private:
  using Key = std::tuple<Collective::Kind, std::int64_t, std::size_t, Rank, bool, Algorithm,
                         Algorithm, Algorithm>;
  const Topology& topology_;
  const CostTable costs_;
  std::map<Key, Method> made_;
};

class ScheduleEngine final : public Engine {
 public:
  ScheduleEngine(Group group, std::unique_ptr<Transport> transport, const CostTable& costs)
      : group_(group), transport_(std::move(transport)), choices_(transport_->topology(), costs) {}

  Status run(const Call& call) override {
    MUSTER_TRY(transport_->enter(call.sequence, signature_of(call.op, call.options)));
    const Operands operands = operands_of(call.op);
    const Schedule schedule = make_schedule(call.op, choices_.of(call.op, call.options),
                                            group_.rank, transport_->topology());
    Player player(*transport_, call, operands, group_, scratch_);
    if (auto played = player.play(schedule); !played) return told(call, std::move(played).error());
    if (operands.reduces && operands.reduce == Reduce::kAvg)
      divide(operands.dtype, operands.output.data(),
             static_cast<std::int64_t>(operands.output.size() / size_of(operands.dtype)),
             group_.size);
    return ok();
  }

  std::optional<Awaited> awaited() const override {
    return Awaited{Awaited::Over::kConnections, transport_->awaited()};
  }

  Result<bool> try_send(const Send& send, Deadline deadline) override {
    std::uint32_t& number = sent_[{send.to, send.tag}];
    for (const auto piece : pieces(send.tensor.bytes))
      MUSTER_TRY(transport_->post(send.to, {MessageId::kPointToPoint | send.tag, number++}, piece));
    MUSTER_TRY(transport_->settle_messages(send.to, deadline));
    return true;
  }

  Result<bool> try_recv(const Recv& recv) override {
    Arriving& arriving = received_[{recv.from, recv.tag}];
    const auto all = pieces(recv.tensor.bytes);
    while (arriving.piece < all.size()) {
      const MessageId id{MessageId::kPointToPoint | recv.tag, arriving.number};
      MUSTER_ASSIGN(const bool taken,
                    transport_->inbox().try_take(recv.from, id, all[arriving.piece]));
      if (!taken) return false;
      ++arriving.number;
      ++arriving.piece;
    }
    arriving.piece = 0;
    return true;
  }

  bool has_part(const Recv& recv) const override {
    const auto found = received_.find({recv.from, recv.tag});
    return found != received_.end() && found->second.piece > 0;
  }

  std::uint32_t activity() const noexcept override { return transport_->inbox().activity(); }
  void await_activity(std::uint32_t seen, TimePoint until) override {
    transport_->inbox().await_activity(seen, until);
  }
  void wake() noexcept override { transport_->inbox().wake(); }
  void fail(const Error& why) noexcept override { transport_->fail(why); }
  void stop(const Error& why) noexcept override { transport_->stop(why); }
  void drain() noexcept override { transport_->drain(); }

  Result<std::unique_ptr<Engine>> split(Group part, std::int32_t color, const Exchange& exchange,
                                        Deadline deadline) override {
    MUSTER_ASSIGN(auto transport, transport_->split(part, color, exchange, deadline));
    return create_schedule_engine(part, std::move(transport), choices_.costs());
  }

 private:
  // The neighbour a schedule waits for may wait itself: ask who is really missing.
  Error told(const Call& call, Error why) {
    if (why.code != ErrorCode::kTimeout || why.message.starts_with("[comm/")) return why;
    auto missing = transport_->missing(call.sequence);
    if (missing.empty()) missing.push_back(why.peer);
    return timeout_error(call.op, call.options, group_, missing);
  }

  const Group group_;
  const std::unique_ptr<Transport> transport_;
  Choices choices_;
  std::vector<std::byte> scratch_;                                // kept between collectives
  std::map<std::pair<Rank, std::uint32_t>, std::uint32_t> sent_;  // messages, by peer and tag
  struct Arriving {
    std::uint32_t number = 0;  // messages taken under that tag
    std::size_t piece = 0;     // pieces of the present tensor that are here
  };
  std::map<std::pair<Rank, std::uint32_t>, Arriving> received_;
};

}  // namespace

std::unique_ptr<Engine> create_schedule_engine(Group group, std::unique_ptr<Transport> transport,
                                               const CostTable& costs) {
  return std::make_unique<ScheduleEngine>(group, std::move(transport), costs);
}

}  // namespace muster::comm
