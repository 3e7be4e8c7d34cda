#include "muster/train/stragglers.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "muster/base/median.h"
#include "muster/base/units.h"

namespace muster::train {
namespace {

constexpr std::int32_t kTwice = 2;         // before a word is said
constexpr std::int32_t kBeforeItGoes = 5;  // comparisons in a row

// Waiting for data is worth a word from this share of a step on.
constexpr double kInputShare = 0.1;

// A link is worth one from here on: workers that share cores wait for each other as well.
constexpr double kLinkFactor = 3;
constexpr double kLinkSeconds = 5e-3;

// Of the sum of the workers' speeds: so much is well shared out, and so much more is worth a word.
constexpr double kWellShared = 0.9;
constexpr double kWorthAWord = 0.02;
constexpr std::int32_t kMostTimes = 16;  // as many slices

// `value` of all but `one` whose `known` is.
double median_of_others(const std::vector<Pace>& paces, const Pace& one, double Pace::*value,
                        double Pace::*known = &Pace::slice) {
  std::vector<double> others;
  for (const Pace& pace : paces)
    if (&pace != &one && pace.*known > 0) others.push_back(pace.*value);
  return median(std::move(others));
}

std::optional<Straggler> finding_of(const std::vector<Pace>& paces, const Pace& pace,
                                    double factor) {
  const double slice = median_of_others(paces, pace, &Pace::slice);
  if (slice > 0 && pace.slice >= factor * slice) {
    return Straggler{pace.worker, Straggler::Cause::kCompute, pace.slice / slice, pace.slice,
                     slice};
  }
  const double input = median_of_others(paces, pace, &Pace::input);
  const double least = kInputShare * pace.step;
  if (slice > 0 && pace.input > 0 && pace.input >= least && pace.input >= factor * input) {
    return Straggler{pace.worker, Straggler::Cause::kInput,
                     pace.input / std::max(input, kInputShare * least), pace.input, input};
  }
  const double link = median_of_others(paces, pace, &Pace::link, &Pace::link);
  if (link > 0 && pace.link >= kLinkFactor * factor * link && pace.link - link >= kLinkSeconds) {
    const auto at = static_cast<std::size_t>(&pace - paces.data());
    const Pace& before = paces[(at + paces.size() - 1) % paces.size()];
    return Straggler{pace.worker,  Straggler::Cause::kLink, pace.link / link, pace.link, link,
                     before.worker};
  }
  return std::nullopt;
}

}  // namespace

std::vector<Straggler> find_stragglers(const std::vector<Pace>& paces, double factor) {
  std::vector<Straggler> found;
  for (const Pace& pace : paces) {
    if (const auto finding = finding_of(paces, pace, factor)) found.push_back(*finding);
  }
  return found;
}

std::string describe(const Straggler& straggler, std::string_view other_end) {
  const auto text = [](double value) {
    return format_duration(
        std::chrono::duration_cast<Duration>(std::chrono::duration<double>(value)));
  };
  if (straggler.cause == Straggler::Cause::kCompute) {
    return fmt::format("computes {:.1f} × slower than the others: {} a slice, they {}",
                       straggler.factor, text(straggler.its), text(straggler.theirs));
  }
  if (straggler.cause == Straggler::Cause::kLink) {
    return fmt::format("hears {} over a slow link: {} KiB take {}, between others {}", other_end,
                       kLinkBytes >> 10, text(straggler.its), text(straggler.theirs));
  }
  return fmt::format(
      "waits {} a step for its data, the others {}: its storage is slow, or it "
      "needs more data.loader_threads",
      text(straggler.its), text(straggler.theirs));
}

std::string describe_few_slices(std::int32_t slices, const std::vector<Pace>& paces,
                                std::int32_t active, std::int64_t most) {
  const auto reached = [&](std::int32_t count) {
    return share_reached(share_by_pace(count, paces, active), paces, active);
  };
  struct {
    std::int32_t slices;
    double share;
  } best{slices, reached(slices)};
  const double now = best.share;
  for (std::int32_t count = 2 * slices; best.share < kWellShared && count <= most; count *= 2) {
    if (count > kMostTimes * slices) break;
    if (const double share = reached(count); share > best.share) best = {count, share};
  }
  if (now >= kWellShared || best.share < now + kWorthAWord) return "";
  return fmt::format(
      "{} slices reach {:.0f} % of what these workers can; {} would reach {:.0f} % "
      "(training.virtual_workers, a part of the result)",
      slices, 100 * now, best.slices, 100 * best.share);
}

StragglerWatch::News StragglerWatch::observe(const std::vector<Pace>& paces) {
  News news;
  // Whoever had to stay, as too few would have been left, may go once there are more.
  if (paces.size() > std::exchange(workers_, paces.size()))
    for (auto& [worker, suspicion] : suspicions_) suspicion.too_slow = 0;
  const std::vector<Straggler> found = find_stragglers(paces, tell_factor_);
  for (const Straggler& straggler : found) {
    Suspicion& suspicion = suspicions_[straggler.worker];
    if (suspicion.cause != straggler.cause) suspicion = {.cause = straggler.cause};
    ++suspicion.found;
    suspicion.missed = 0;
    if (suspicion.found >= kTwice && !std::exchange(suspicion.told, true))
      news.slow.push_back(straggler);
    // Of a slow link nobody knows at which end the fault is.
    const bool too_slow = evict_factor_ > 0 && straggler.factor >= evict_factor_ &&
                          straggler.cause != Straggler::Cause::kLink;
    suspicion.too_slow = too_slow ? suspicion.too_slow + 1 : 0;
    if (suspicion.too_slow == kBeforeItGoes) news.to_go.push_back(straggler.worker);
  }
  for (auto entry = suspicions_.begin(); entry != suspicions_.end();) {
    auto& [worker, suspicion] = *entry;
    const bool still = std::ranges::find(found, worker, &Straggler::worker) != found.end();
    const bool gone = std::ranges::find(paces, worker, &Pace::worker) == paces.end();
    const bool over = gone || (!still && (!suspicion.told || ++suspicion.missed >= kTwice));
    if (over && suspicion.told && !gone) news.recovered.push_back(worker);
    entry = over ? suspicions_.erase(entry) : std::next(entry);
  }
  return news;
}

}  // namespace muster::train
