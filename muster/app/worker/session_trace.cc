// What a session tells of where its worker is: to whoever asks, and to traces.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/app/worker/session.h"
#include "muster/observe/record_codec.h"

namespace muster::app {
namespace {

constexpr std::size_t kMostInAReport = 4096;

// "all_reduce sum F32 [8]" (gradients/3)
observe::Span span_of(const comm::FlightEntry& entry) {
  const auto space = std::min(entry.op.find(' '), entry.op.size());
  std::string detail = entry.op.substr(std::min(space + 1, entry.op.size()));
  if (!entry.label.empty()) detail += fmt::format(" ({})", entry.label);
  return {.name = entry.op.substr(0, space),
          .detail = std::move(detail),
          .number = entry.number,
          .bytes = entry.bytes,
          .begin = entry.submitted,
          .duration = entry.ended.value_or(entry.submitted) - entry.submitted};
}

}  // namespace

void Session::doing(Step step, std::string_view phase) {
  whereabouts_->doing(step, phase);
  if (tracer_) tracer_->doing(step, phase);
}

void Session::computing(std::int32_t lane, std::string_view pass) {
  recorder_->computing(lane, pass, system_clock().now());
  whereabouts_->computing(lane, pass);
  if (tracer_) tracer_->computing(lane, pass);
}

// Before there is a communicator.
void Session::begin_trace() {
  if (!job_->trace.enabled) return;
  tracer_.emplace(system_clock(),
                  observe::TracerOptions{.worker = environment_.worker, .steps = job_->trace.steps},
                  [this](std::vector<observe::Span> spans) { deliver(std::move(spans)); });
  recorder_->on_end([this](const comm::FlightEntry& entry) {
    if (!tracer_->over()) tracer_->operated(span_of(entry));
  });
}

// In the launcher's time, and in parts, since a message may have so many bytes.
void Session::deliver(std::vector<observe::Span> spans) {
  const Duration offset = member_->clock_offset();
  std::vector<observe::Record> part;
  for (observe::Span& span : spans) {
    span.begin += offset;
    part.emplace_back(std::move(span));
    if (part.size() == kMostInAReport) member_->report(observe::encode(std::exchange(part, {})));
  }
  if (!part.empty()) member_->report(observe::encode(part));
}

}  // namespace muster::app
