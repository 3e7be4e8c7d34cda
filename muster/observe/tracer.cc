#include "muster/observe/tracer.h"

#include <algorithm>
#include <utility>

#include "muster/base/phases.h"

namespace muster::observe {
namespace {

constexpr std::string_view kOf = " of ";
constexpr std::size_t kMostKept = 2048;  // spans, until they are delivered sooner than they are due

// "backward of slice 3": what is done, and to what.
std::pair<std::string, std::string> parted(const std::string& text) {
  const auto at = text.find(kOf);
  if (at == text.npos) return {text, ""};
  return {text.substr(0, at), text.substr(at + kOf.size())};
}

}  // namespace

Tracer::Tracer(Clock& clock, TracerOptions options, Deliver deliver)
    : clock_(clock), options_(options), deliver_(std::move(deliver)) {}

void Tracer::enter(Generation generation, Rank rank) {
  const std::lock_guard lock(mutex_);
  generation_ = generation;
  rank_ = rank;
}

void Tracer::doing(Step step, std::string_view phase) {
  if (over_) return;
  std::unique_lock lock(mutex_);
  const TimePoint now = clock_.now();
  close(Track::kPhases, 0, phase_, now);
  if (step_.text.empty() || step_.step != step || phase == kWaitingForGeneration)
    change_step(step, phase, now);
  if (!over_) phase_ = {std::string(phase), step, now};
  const bool due = is_due(now);
  lock.unlock();
  if (due) deliver();
}

void Tracer::change_step(Step step, std::string_view phase, TimePoint now) {
  const bool recovers = phase == kWaitingForGeneration;
  const bool prepares = step_.text.empty() && phase != kWaitingForData;
  if (!step_.text.empty() && step < step_.step) {
    close_lanes(now);
    step_.text = "broken off";
  }
  close(Track::kSteps, 0, step_, now);
  before_ = step_.step;
  over_ = options_.steps > 0 && steps_ == options_.steps;
  if (over_) return;
  step_ = {recovers ? "recovery" : prepares ? "start" : "step", step, now};
  if (!recovers && !prepares) ++steps_;
}

void Tracer::computing(std::int32_t lane, std::string_view pass) {
  if (over_) return;
  std::unique_lock lock(mutex_);
  const auto place = static_cast<std::size_t>(lane);
  if (place >= lanes_.size()) lanes_.resize(place + 1);
  const TimePoint now = clock_.now();
  close(Track::kLane, lane, lanes_[place], now);
  lanes_[place] = {std::string(pass), step_.step, now};
  const bool due = is_due(now);
  lock.unlock();
  if (due) deliver();
}

bool Tracer::is_due(TimePoint now) {
  if (!over_ && now - delivered_ < options_.deliver_every && spans_.size() < kMostKept)
    return false;
  delivered_ = now;
  return true;
}

void Tracer::deliver() {
  const std::lock_guard delivering(delivering_);
  std::unique_lock lock(mutex_);
  std::vector<Span> spans = std::exchange(spans_, {});
  lock.unlock();
  if (!spans.empty()) deliver_(std::move(spans));
}

// Several may run at the same time, each on a lane of its own: the first that is free.
void Tracer::operated(Span operation) {
  if (over_) return;
  const std::lock_guard lock(mutex_);
  const auto free =
      std::ranges::find_if(operations_, [&](TimePoint ended) { return ended <= operation.begin; });
  operation.track = Track::kCommunication;
  operation.lane = static_cast<std::int32_t>(free - operations_.begin());
  // Who waited for it may have been sooner to go on than this is told.
  operation.step = operation.begin < step_.begin ? before_ : step_.step;
  if (free == operations_.end())
    operations_.push_back(operation.end());
  else
    *free = operation.end();
  keep(std::move(operation));
}

void Tracer::finish() {
  std::unique_lock lock(mutex_);
  const TimePoint now = clock_.now();
  close(Track::kPhases, 0, phase_, now);
  close(Track::kSteps, 0, step_, now);
  close_lanes(now);
  over_ = true;
  lock.unlock();
  deliver();
}

void Tracer::close(Track track, std::int32_t lane, Open& open, TimePoint now) {
  if (open.text.empty()) return;
  auto [name, detail] = parted(std::exchange(open.text, {}));
  keep({.track = track,
        .lane = lane,
        .name = std::move(name),
        .detail = std::move(detail),
        .step = open.step,
        .begin = open.begin,
        .duration = now - open.begin});
}

void Tracer::close_lanes(TimePoint now) {
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane)
    close(Track::kLane, static_cast<std::int32_t>(lane), lanes_[lane], now);
}

void Tracer::keep(Span span) {
  span.worker = options_.worker;
  span.rank = rank_;
  span.generation = generation_;
  spans_.push_back(std::move(span));
}

}  // namespace muster::observe
