#include "muster/observe/sinks/trace/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <variant>

#include "muster/observe/line_file.h"

namespace muster::observe {
namespace {

using Json = nlohmann::ordered_json;

// Whole ones: readers make of fractions what they can.
std::int64_t microseconds(Duration duration) {
  return std::chrono::floor<std::chrono::microseconds>(duration).count();
}

// Perfetto keeps process 0 for itself.
std::int64_t process_of(const Span& span) { return std::int64_t{span.worker} + 1; }

constexpr std::int64_t kMostLanes = 1000;

// Tracks in the order in which they are shown.
std::int64_t thread_of(const Span& span) {
  return static_cast<std::int64_t>(span.track) * kMostLanes + span.lane;
}

std::string thread_name(const Span& span) {
  switch (span.track) {
    case Track::kSteps:
      return "steps";
    case Track::kPhases:
      return "phases";
    case Track::kLane:
      return fmt::format("lane {}", span.lane);
    case Track::kCommunication:
      break;
  }
  return span.lane == 0 ? "communication" : fmt::format("communication {}", span.lane + 1);
}

std::string_view category(Track track) {
  switch (track) {
    case Track::kSteps:
      return "step";
    case Track::kPhases:
      return "phase";
    case Track::kLane:
      return "compute";
    case Track::kCommunication:
      break;
  }
  return "communication";
}

Json metadata(const Span& span, std::string_view what, Json argument) {
  return {{"name", what},
          {"ph", "M"},
          {"pid", process_of(span)},
          {"tid", thread_of(span)},
          {"args", std::move(argument)}};
}

struct Microseconds {
  std::int64_t begin, end;
};

Json event_of(const Span& span, Microseconds when) {
  Json arguments{{"step", to_int(span.step)},
                 {"rank", to_int(span.rank)},
                 {"generation", to_int(span.generation)}};
  if (!span.detail.empty()) arguments["of"] = span.detail;
  if (span.number) arguments["number"] = *span.number;
  if (span.track == Track::kCommunication) arguments["bytes"] = span.bytes;
  return {{"name", span.track == Track::kSteps ? fmt::format("{} {}", span.name, to_int(span.step))
                                               : span.name},
          {"cat", category(span.track)},
          {"ph", "X"},
          {"ts", when.begin},
          {"dur", when.end - when.begin},
          {"pid", process_of(span)},
          {"tid", thread_of(span)},
          {"args", std::move(arguments)}};
}

class TraceSink final : public Sink {
 public:
  TraceSink(LineFile file, TimePoint origin, std::function<void(const Error&)> on_error)
      : file_(std::move(file)), origin_(origin), on_error_(std::move(on_error)) {}
  ~TraceSink() override { file_.append(begun_ ? "]\n" : "[]\n"); }

  void take(const Record& record) noexcept override {
    const auto* notice = std::get_if<Notice>(&record);
    if (notice != nullptr && notice->severity == Severity::kWarning)
      on_error_(fail(ErrorCode::kUnavailable, "[observe/trace] " + notice->text));
    const auto* span = std::get_if<Span>(&record);
    if (span == nullptr) return;
    const std::lock_guard lock(mutex_);
    introduce(*span);
    write(event_of(*span, place(*span)), LineFile::Steps{span->step, span->step});
  }

 private:
  // Readers leave out what begins before its forerunner on the same track has ended, and that may
  // be so by some microseconds where another host's clock has been measured anew.
  Microseconds place(const Span& span) {
    std::int64_t& ended = ended_[{process_of(span), thread_of(span)}];
    const std::int64_t begin = std::max(ended, microseconds(span.begin - origin_));
    ended = std::max(begin, microseconds(span.end() - origin_));
    return {begin, ended};
  }

  void introduce(const Span& span) {
    const std::int64_t process = process_of(span);
    const std::int64_t thread = thread_of(span);
    if (ended_.contains({process, thread})) return;
    if (processes_.insert(process).second) {
      write(metadata(span, "process_name", {{"name", fmt::format("worker {}", span.worker)}}));
      write(metadata(span, "process_sort_index", {{"sort_index", process}}));
    }
    write(metadata(span, "thread_name", {{"name", thread_name(span)}}));
    write(metadata(span, "thread_sort_index", {{"sort_index", thread}}));
  }

  void write(const Json& event, std::optional<LineFile::Steps> about = std::nullopt) {
    const std::string text = event.dump(-1, ' ', false, Json::error_handler_t::replace);
    file_.append(fmt::format("{}{}\n", std::exchange(begun_, true) ? "," : "[", text), about);
  }

  std::mutex mutex_;
  LineFile file_;
  const TimePoint origin_;
  const std::function<void(const Error&)> on_error_;
  bool begun_ = false;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> ended_;  // by process and thread
  std::set<std::int64_t> processes_;
};

}  // namespace

std::string trace_file(WallTime now) { return fmt::format("trace-{}.json", format_utc(now, true)); }

Result<std::shared_ptr<Sink>> create_trace_sink(Files& files, const Path& path, const Clock& clock,
                                                std::function<void(const Error&)> on_error) {
  MUSTER_TRY(files.create_folders(path.parent_path()));
  MUSTER_ASSIGN(LineFile file, LineFile::open(files, path, clock, "[observe/trace]", on_error));
  return std::make_shared<TraceSink>(std::move(file), clock.now(), std::move(on_error));
}

}  // namespace muster::observe
