#include "muster/observe/tracer.h"

#include <algorithm>
#include <utility>

namespace muster::observe {
namespace {

constexpr std::string_view kOf = " of ";

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
  if (step_.text.empty() || step_.step != step) {
    close(Track::kSteps, 0, step_, now);
    over_ = options_.steps > 0 && steps_ == options_.steps;
    ++steps_;
    if (!over_) step_ = {"step", step, now};
  }
  if (!over_) phase_ = {std::string(phase), step, now};
  if (!over_ && now - delivered_ < options_.deliver_every) return;
  delivered_ = now;
  std::vector<Span> spans = std::exchange(spans_, {});
  lock.unlock();
  deliver_(std::move(spans));
}

void Tracer::computing(std::int32_t lane, std::string_view pass) {
  if (over_) return;
  const std::lock_guard lock(mutex_);
  const auto place = static_cast<std::size_t>(lane);
  if (place >= lanes_.size()) lanes_.resize(place + 1);
  const TimePoint now = clock_.now();
  close(Track::kLane, lane, lanes_[place], now);
  lanes_[place] = {std::string(pass), step_.step, now};
}

// Several may run at the same time, each on a lane of its own: the first that is free.
void Tracer::operated(Span operation) {
  if (over_) return;
  const std::lock_guard lock(mutex_);
  const auto free =
      std::ranges::find_if(operations_, [&](TimePoint ended) { return ended <= operation.begin; });
  operation.track = Track::kCommunication;
  operation.lane = static_cast<std::int32_t>(free - operations_.begin());
  operation.step = step_.step;
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
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane)
    close(Track::kLane, static_cast<std::int32_t>(lane), lanes_[lane], now);
  over_ = true;
  std::vector<Span> spans = std::exchange(spans_, {});
  lock.unlock();
  if (!spans.empty()) deliver_(std::move(spans));
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

void Tracer::keep(Span span) {
  span.worker = options_.worker;
  span.rank = rank_;
  span.generation = generation_;
  spans_.push_back(std::move(span));
}

}  // namespace muster::observe
