#include "muster/comm/engine/time_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "muster/base/units.h"

namespace muster::comm {
namespace {

constexpr int kPings = 6;
constexpr int kBursts = 4;
constexpr int kBulks = 4;
constexpr std::uint32_t kBurst = 16;                      // messages
constexpr std::uint32_t kBulk = std::uint32_t{64} << 10;  // bytes
// What a fast link carries is timed with more.
constexpr std::uint32_t kLongBulk = std::uint32_t{512} << 10;
constexpr Duration kFast = std::chrono::milliseconds(1);
// Of one link; each kind is timed once however long it takes.
constexpr Duration kPatience = std::chrono::milliseconds(40);

// `count` messages of `bytes` follow, and want an answer. No count and `bytes`: the end.
struct Trial {
  std::uint32_t bytes = 0;
  std::uint32_t count = 0;
  bool is_end() const noexcept { return count == 0 && bytes > 0; }
};
constexpr Trial kEnd{1, 0};

template <class T>
std::span<std::byte> message_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

Status makes_no_sense(const TimedLine& line, const Trial& trial) {
  return muster::fail(
      ErrorCode::kUnavailable,
      fmt::format("[comm/costs] rank {} announces {} messages of {} bytes in generation {}, where "
                  "a link is measured with fewer; do all workers run the same muster?",
                  to_int(line.peer()), trial.count, trial.bytes, to_int(line.group().generation)),
      line.peer());
}

// The end of a link that times it.
class Stopwatch {
 public:
  Stopwatch(TimedLine& line, Clock& clock, double least_per_byte)
      : line_(line), clock_(clock), least_per_byte_(least_per_byte), began_(clock.now()) {}

  Result<MeasuredLink> measure() {
    MUSTER_TRY(once({}));  // whatever the first one wakes
    MUSTER_ASSIGN(const double ping, best({}, kPings));
    MUSTER_ASSIGN(const double burst, best({1, kBurst}, kBursts));
    MUSTER_ASSIGN(const Duration first, once({kBulk, 1}));
    // A difference that is small beside the round trip would say little.
    const bool short_of = first < kFast || to_seconds(first) < 2 * ping;
    const std::uint32_t bytes = short_of ? kLongBulk : kBulk;
    MUSTER_ASSIGN(double bulk, best({bytes, 1}, kBulks));
    if (!short_of) bulk = std::min(bulk, to_seconds(first));
    MUSTER_TRY(skip_link(line_));
    constexpr double kLeast = 1e-9;  // what clocks cannot tell from nothing
    MeasuredLink link;
    link.per_message = std::max(kLeast, (burst - ping) / kBurst);
    link.costs.latency = std::max(kLeast, ping / 2 - 2 * link.per_message);
    link.costs.per_byte = std::max(least_per_byte_, (bulk - ping - link.per_message) / bytes);
    return link;
  }

 private:
  Result<Duration> once(Trial trial) {
    payload_.resize(std::max<std::size_t>(payload_.size(), trial.bytes));
    const TimePoint start = clock_.now();
    MUSTER_TRY(line_.send(message_of(trial)));
    for (std::uint32_t i = 0; i < trial.count; ++i)
      MUSTER_TRY(line_.send(std::span(payload_).first(trial.bytes)));
    std::byte answer{};
    MUSTER_TRY(line_.take(message_of(answer)));
    const Duration took = clock_.now() - start;
    MUSTER_TRY(line_.settle());
    return took;
  }

  // Seconds. What disturbs makes it longer, never shorter.
  Result<double> best(Trial trial, int rounds) {
    Duration least = Duration::max();
    for (int round = 0; round < rounds; ++round) {
      MUSTER_ASSIGN(const Duration took, once(trial));
      least = std::min(least, took);
      if (clock_.now() - began_ > kPatience) break;
    }
    return to_seconds(least);
  }

  TimedLine& line_;
  Clock& clock_;
  const double least_per_byte_;
  const TimePoint began_;
  std::vector<std::byte> payload_;
};

constexpr std::uint32_t kTimingTag = 0xC057;

class MessageLine final : public TimedLine {
 public:
  MessageLine(Communicator& communicator, Rank peer, Clock& clock, Duration limit)
      : communicator_(communicator),
        peer_(peer),
        clock_(clock),
        deadline_(Deadline::after(clock, limit)) {}

  Rank peer() const noexcept override { return peer_; }
  const Group& group() const noexcept override { return communicator_.group(); }

  Status send(std::span<std::byte> bytes) override {
    under_way_.push_back(communicator_.submit(
        Send{.tensor = raw_view(bytes), .to = peer_, .tag = kTimingTag}, options()));
    return ok();
  }
  Status settle() override {
    const Status outcome = wait_for_all(under_way_);
    under_way_.clear();
    return outcome;
  }
  Status take(std::span<std::byte> into) override {
    const Status taken =
        communicator_
            .submit(Recv{.tensor = raw_view(into), .from = peer_, .tag = kTimingTag}, options())
            .wait();
    // The caller goes on without settling, and with it what is being sent.
    if (!taken) static_cast<void>(settle());
    return taken;
  }
  Status go_on() const override {
    if (!deadline_.passed(clock_)) return ok();
    return muster::fail(
        ErrorCode::kTimeout,
        fmt::format("[comm/costs] rank {} has not come to the end of timing its link to rank {}",
                    to_int(peer_), to_int(group().rank)),
        peer_);
  }

 private:
  static TensorView raw_view(std::span<std::byte> bytes) {
    return {DType::kU8, {static_cast<std::int64_t>(bytes.size())}, bytes};
  }
  OpOptions options() const {
    OpOptions options;
    options.timeout = std::max(Duration{1}, deadline_.at() - clock_.now());
    options.label = "costs";
    return options;
  }

  Communicator& communicator_;
  const Rank peer_;
  Clock& clock_;
  const Deadline deadline_;
  std::vector<Work> under_way_;
};

}  // namespace

Result<MeasuredLink> time_link(TimedLine& line, Clock& clock, double least_per_byte) {
  return Stopwatch(line, clock, least_per_byte).measure();
}

Status skip_link(TimedLine& line) {
  Trial end = kEnd;
  const Status sent = line.send(message_of(end));
  const Status settled = line.settle();
  return sent ? settled : sent;
}

Status answer_link(TimedLine& line) {
  std::vector<std::byte> payload;
  for (;;) {
    Trial trial;
    MUSTER_TRY(line.go_on());
    MUSTER_TRY(line.take(message_of(trial)));
    if (trial.is_end()) return ok();
    if (trial.bytes > kLongBulk || trial.count > kBurst) return makes_no_sense(line, trial);
    payload.resize(trial.bytes);
    for (std::uint32_t i = 0; i < trial.count; ++i) MUSTER_TRY(line.take(payload));
    std::byte done{1};
    MUSTER_TRY(line.send(message_of(done)));
    MUSTER_TRY(line.settle());
  }
}

Result<MeasuredLink> time_messages(Communicator& communicator, Rank peer, Clock& clock,
                                   Duration limit, double least_per_byte) {
  MessageLine line(communicator, peer, clock, limit);
  return time_link(line, clock, least_per_byte);
}

Status answer_messages(Communicator& communicator, Rank peer, Clock& clock, Duration limit) {
  MessageLine line(communicator, peer, clock, limit);
  return answer_link(line);
}

}  // namespace muster::comm
