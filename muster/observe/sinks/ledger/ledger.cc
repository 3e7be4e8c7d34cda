#include "muster/observe/sinks/ledger/ledger.h"

#include <fmt/format.h>

#include <mutex>
#include <optional>
#include <utility>

#include "muster/base/hash.h"

namespace muster::observe {
namespace {

constexpr std::size_t kHashDigits = 16;
constexpr std::string_view kHashKey = ",\"hash\":\"";
constexpr Duration kMostHeldBack = std::chrono::seconds(1);

struct Segment {
  StepCommitted first;
  StepCommitted last;
  std::uint64_t roll = 0;  // of all its steps
  TimePoint begun{};

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

std::string body_of(const RunStarted& started) {
  return fmt::format(R"({{"started_after":{},"epoch_size":{},"batch":{},"slices":{})",
                     to_int(started.first_step), started.epoch_size, started.batch, started.slices);
}

class LedgerSink final : public Sink {
 public:
  LedgerSink(std::unique_ptr<WritableFile> file, std::string last_hash, Clock& clock,
             std::function<void(const Error&)> on_error)
      : file_(std::move(file)),
        last_hash_(std::move(last_hash)),
        clock_(clock),
        on_error_(std::move(on_error)) {}

  ~LedgerSink() override { flush(); }

  void take(const Record& record) noexcept override {
    const std::lock_guard lock(mutex_);
    if (const auto* committed = std::get_if<StepCommitted>(&record)) {
      add(*committed);
    } else if (const auto* started = std::get_if<RunStarted>(&record)) {
      flush();
      write(body_of(*started));
    } else if (!std::holds_alternative<Metrics>(record) && !std::holds_alternative<Span>(record)) {
      flush();
    }
  }

 private:
  void add(const StepCommitted& committed) {
    if (segment_ && !segment_->is_followed_by(committed)) flush();
    if (!segment_) segment_ = Segment{committed, committed, 0, clock_.now()};
    segment_->last = committed;
    segment_->roll += committed.roll;
    if (clock_.now() - segment_->begun >= kMostHeldBack) flush();
  }

  void flush() {
    if (const auto segment = std::exchange(segment_, std::nullopt)) write(body_of(*segment));
  }

  void write(const std::string& body) {
    if (failed_) return;
    const std::string hash = ledger_hash(last_hash_, body);
    const std::string line = fmt::format("{}{}{}\"}}\n", body, kHashKey, hash);
    const Status written = file_->append(std::as_bytes(std::span(line)));
    if (written) {
      last_hash_ = hash;
      return;
    }
    failed_ = true;
    on_error_(with_context(written.error(), "[observe/ledger] the ledger is no longer written"));
  }

  std::mutex mutex_;
  std::unique_ptr<WritableFile> file_;
  std::string last_hash_;
  Clock& clock_;
  std::function<void(const Error&)> on_error_;
  std::optional<Segment> segment_;
  bool failed_ = false;
};

// Of the last whole line; a torn one after it is cut off by a newline of its own.
struct End {
  std::string hash;
  bool torn = false;
};
End end_of(std::string_view text) {
  End end;
  end.torn = !text.empty() && !text.ends_with('\n');
  const std::size_t at = text.rfind(kHashKey, text.rfind('\n'));
  if (at != text.npos) end.hash = text.substr(at + kHashKey.size(), kHashDigits);
  return end;
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
  End end;
  if (files.exists(path)) {
    MUSTER_ASSIGN(const std::string text, files.read(path));
    end = end_of(text);
  }
  MUSTER_ASSIGN(std::unique_ptr<WritableFile> file, files.open(path, Files::Open::kAppend));
  if (end.torn) MUSTER_TRY(file->append(std::as_bytes(std::span("\n", 1))));
  return std::make_shared<LedgerSink>(std::move(file), std::move(end.hash), clock,
                                      std::move(on_error));
}

}  // namespace muster::observe
