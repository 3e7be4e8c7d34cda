// What a session tells of where its worker is: to whoever asks, and to traces.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/app/worker/session.h"
#include "muster/observe/record_codec.h"

namespace muster::app {
namespace {

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

// In the launcher's time.
void Session::deliver(std::vector<observe::Span> spans) {
  const Duration offset = member_->clock_offset();
  std::vector<observe::Record> records;
  records.reserve(spans.size());
  for (observe::Span& span : spans) {
    span.begin += offset;
    records.emplace_back(std::move(span));
  }
  member_->report(observe::encode(records));
}

}  // namespace muster::app
