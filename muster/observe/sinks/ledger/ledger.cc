#include "muster/observe/sinks/ledger/ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "muster/base/hash.h"
#include "muster/observe/line_file.h"

namespace muster::observe {
namespace {

constexpr std::size_t kHashDigits = 16;
constexpr std::string_view kHashKey = ",\"hash\":\"";
constexpr Duration kMostHeldBack = std::chrono::seconds(1);

struct Segment {
  StepCommitted first;
  StepCommitted last;
  std::uint64_t roll = 0;  // of all its steps

  bool is_followed_by(const StepCommitted& next) const noexcept {
    return next.step == muster::next(last.step) && next.generation == last.generation &&
           next.epoch == last.epoch && next.begin == last.end;
  }
};

std::string body_of(const Segment& segment) {
  return fmt::format(
      R"({{"generation":{},"steps":[{},{}],"epoch":{},"positions":[{},{}],"roll":{})",
      to_int(segment.first.generation), to_int(segment.first.step), to_int(segment.last.step),
      segment.first.epoch, segment.first.begin, segment.last.end, segment.roll);
}

std::string body_of(const WentBack& back) {
  return fmt::format(R"({{"generation":{},"back_to":{})", to_int(back.generation), to_int(back.to));
}

std::string body_of(const RunStarted& started) {
  return fmt::format(R"({{"started_after":{},"epoch_size":{},"batch":{},"slices":{})",
                     to_int(started.first_step), started.epoch_size, started.batch, started.slices);
}

// What found room neither on the disk nor in memory, and is taken back with it.
struct Gap {
  Step after;  // the last step before it
  Step last;   // where the training stood at its end
};

std::string body_of(const Gap& gap) {
  return fmt::format(R"({{"unrecorded":[{},{}])", to_int(next(gap.after)), to_int(gap.last));
}

class LedgerSink final : public Sink {
 public:
  LedgerSink(LineFile file, std::string last_hash, Clock& clock)
      : file_(std::move(file)),
        last_hash_(std::move(last_hash)),
        clock_(clock),
        written_(clock.now()) {}

  ~LedgerSink() override {
    flush();
    close_gap();
  }

  void take(const Record& record) noexcept override {
    const std::lock_guard lock(mutex_);
    if (const auto* committed = std::get_if<StepCommitted>(&record)) {
      add(*committed);
    } else if (const auto* started = std::get_if<RunStarted>(&record)) {
      flush();
      write(body_of(*started), {});
    } else if (const auto* back = std::get_if<WentBack>(&record)) {
      flush();
      if (!close_gap() || !write(body_of(*back), {})) widen_gap(back->to, back->to);
    } else if (!std::holds_alternative<Metrics>(record) && !std::holds_alternative<Span>(record)) {
      flush();
    }
  }

 private:
  void add(const StepCommitted& committed) {
    if (segment_ && !segment_->is_followed_by(committed)) flush();
    if (!segment_) segment_ = Segment{committed, committed, 0};
    segment_->last = committed;
    segment_->roll += committed.roll;
    if (clock_.now() - written_ >= kMostHeldBack) flush();
  }

  void flush() {
    const auto segment = std::exchange(segment_, std::nullopt);
    if (!segment) return;
    const Step first = segment->first.step, last = segment->last.step;
    if (!close_gap() || !write(body_of(*segment), LineFile::Steps{first, last}))
      widen_gap(Step{to_int(first) - 1}, last);
    written_ = clock_.now();
  }

  // True: there is none, or not any longer.
  bool close_gap() {
    if (gap_ && write(body_of(*gap_), {})) gap_.reset();
    return !gap_;
  }

  void widen_gap(Step after, Step last) {
    gap_ = Gap{gap_ ? std::min(gap_->after, after) : after, last};
  }

  bool write(const std::string& body, std::optional<LineFile::Steps> about) {
    std::string hash = ledger_hash(last_hash_, body);
    if (!file_.append(fmt::format("{}{}{}\"}}\n", body, kHashKey, hash), about)) return false;
    last_hash_ = std::move(hash);
    return true;
  }

  std::mutex mutex_;
  LineFile file_;
  std::string last_hash_;
  Clock& clock_;
  TimePoint written_;  // the last segment
  std::optional<Segment> segment_;
  std::optional<Gap> gap_;  // since the last line
};

// Of the last whole line; none: there is no such line.
std::string last_hash(std::string_view text) {
  const std::size_t at = text.rfind(kHashKey, text.rfind('\n'));
  return at == text.npos ? "" : std::string(text.substr(at + kHashKey.size(), kHashDigits));
}

}  // namespace

std::string ledger_hash(std::string_view before, std::string_view body) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(before)));
  hash.update(std::as_bytes(std::span(body)));
  return to_hex(hash.finish()).substr(0, kHashDigits);
}

Result<std::shared_ptr<Sink>> create_ledger_sink(Files& files, const Path& path, Clock& clock,
                                                 std::function<void(const Error&)> on_error) {
  std::string before;
  if (files.exists(path)) {
    MUSTER_ASSIGN(const std::string text, files.read(path));
    before = last_hash(text);
  }
  MUSTER_ASSIGN(LineFile file,
                LineFile::open(files, path, clock, "[observe/ledger]", std::move(on_error)));
  return std::make_shared<LedgerSink>(std::move(file), std::move(before), clock);
}

}  // namespace muster::observe
