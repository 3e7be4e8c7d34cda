#include "muster/train/pace.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <utility>

#include "muster/base/median.h"
#include "muster/base/random.h"
#include "muster/base/round_up.h"
#include "muster/base/units.h"

namespace muster::train {
namespace {

// A worker that was given nothing because it is slow is tried again after some 80 comparisons for a
// tenfold lack of speed.
constexpr double kFading = 0.985;
constexpr int kLinkTries = 3;
constexpr double kWaitingShare = 0.1;  // of a step

constexpr std::size_t kMostSteps = 1000;  // that a median is taken of

// Lanes take one slice each at a time.
double seconds_for(std::int32_t slices, const Pace& pace) {
  return static_cast<double>(ceil_div(slices, pace.lanes)) * pace.slice;
}

// Of those that compute; who is not known is as fast as most.
std::vector<Pace> known_paces(const std::vector<Pace>& paces, std::int32_t active) {
  std::vector<Pace> known(paces.begin(),
                          paces.begin() + std::min<std::ptrdiff_t>(active, std::ssize(paces)));
  std::vector<double> speeds;
  for (const Pace& pace : known)
    if (pace.slice > 0) speeds.push_back(pace.slice);
  const double usual = speeds.empty() ? 1.0 : median(std::move(speeds));
  for (Pace& pace : known)
    if (pace.slice <= 0) pace.slice = usual;
  return known;
}

}  // namespace

std::array<double, Pace::kWords> Pace::pack() const noexcept {
  return {static_cast<double>(worker),
          static_cast<double>(lanes),
          slice,
          input,
          waiting,
          step,
          link,
          stop ? 1.0 : 0.0,
          static_cast<double>(backups)};
}

Pace Pace::unpack(const double* words) noexcept {
  return {.worker = static_cast<std::int32_t>(words[0]),
          .lanes = static_cast<std::int32_t>(words[1]),
          .slice = words[2],
          .input = words[3],
          .waiting = words[4],
          .step = words[5],
          .link = words[6],
          .stop = words[7] != 0,
          .backups = static_cast<std::int32_t>(words[8])};
}

void PaceMeter::add(const Step& step) {
  if (steps_.size() == kMostSteps) steps_.pop_front();
  steps_.push_back(step);
}

Pace PaceMeter::take(std::int32_t worker, std::int32_t lanes) {
  std::vector<double> slice;
  std::vector<double> input;
  std::vector<double> waiting;
  std::vector<double> whole;
  std::int32_t backups = 0;
  for (const Step& step : std::exchange(steps_, {})) {
    const std::int32_t rounds = ceil_div(step.slices - step.backups, lanes);
    backups += step.backups;
    if (rounds > 0) slice.push_back(to_seconds(step.computing) / rounds);
    input.push_back(to_seconds(step.input));
    waiting.push_back(to_seconds(step.waiting));
    whole.push_back(to_seconds(step.whole));
  }
  return {.worker = worker,
          .lanes = lanes,
          .slice = median(std::move(slice)),
          .input = median(std::move(input)),
          .waiting = median(std::move(waiting)),
          .step = median(std::move(whole)),
          .backups = backups};
}

bool links_matter(const std::vector<Pace>& paces) {
  return !paces.empty() && std::ranges::all_of(paces, [](const Pace& pace) {
    return pace.step > 0 && pace.waiting >= kWaitingShare * pace.step;
  });
}

Result<double> measure_link(comm::Communicator& communicator, Clock& clock,
                            const comm::OpOptions& options) {
  const comm::Group group = communicator.group();
  const Rank after{(to_int(group.rank) + 1) % group.size};
  const Rank before{(to_int(group.rank) + group.size - 1) % group.size};
  std::vector<std::uint8_t> sent(kLinkBytes);
  std::vector<std::uint8_t> received(kLinkBytes);
  Duration best = Duration::max();
  for (int i = 0; i < kLinkTries; ++i) {
    MUSTER_TRY(communicator.submit(comm::Barrier{}, options).wait());
    const TimePoint began = clock.now();
    auto sending =
        communicator.submit(comm::Send{.tensor = view_of(std::span(sent)), .to = after}, options);
    auto receiving = communicator.submit(
        comm::Recv{.tensor = view_of(std::span(received)), .from = before}, options);
    MUSTER_TRY(receiving.wait());
    best = std::min(best, clock.now() - began);
    MUSTER_TRY(sending.wait());
  }
  return to_seconds(best);
}

Result<std::vector<Pace>> exchange_paces(comm::Communicator& communicator, const Pace& mine,
                                         const comm::OpOptions& options) {
  auto words = mine.pack();
  std::vector<double> all(static_cast<std::size_t>(communicator.group().size) * Pace::kWords);
  MUSTER_TRY(communicator
                 .submit(comm::AllGather{.output = view_of(std::span(all)),
                                         .input = view_of(std::span<double>(words))},
                         options)
                 .wait());
  std::vector<Pace> paces;
  for (std::size_t at = 0; at < all.size(); at += Pace::kWords)
    paces.push_back(Pace::unpack(all.data() + at));
  return paces;
}

std::vector<Pace> with_memory(std::vector<Pace> now, const std::vector<Pace>& before) {
  for (Pace& pace : now) {
    if (pace.slice > 0) continue;
    const auto known = std::ranges::find(before, pace.worker, &Pace::worker);
    if (known != before.end()) pace.slice = kFading * known->slice;
  }
  return now;
}

std::uint64_t fingerprint(const std::vector<Pace>& paces) {
  std::vector<double> words;
  for (const Pace& pace : paces) {
    const auto packed = pace.pack();
    words.insert(words.end(), packed.begin(), packed.end());
  }
  return stable_hash(words);
}

std::vector<std::int32_t> share_by_pace(std::int32_t slices, const std::vector<Pace>& paces,
                                        std::int32_t active) {
  const std::vector<Pace> known = known_paces(paces, active);
  std::vector<std::int32_t> counts(paces.size());
  counts[0] = 1;
  for (std::int32_t dealt = 1; dealt < slices; ++dealt) {
    std::size_t soonest = 0;
    for (std::size_t rank = 1; rank < known.size(); ++rank) {
      if (seconds_for(counts[rank] + 1, known[rank]) <
          seconds_for(counts[soonest] + 1, known[soonest]))
        soonest = rank;
    }
    ++counts[soonest];
  }
  return counts;
}

double computing_seconds(const std::vector<std::int32_t>& counts, const std::vector<Pace>& paces) {
  double longest = 0;
  for (std::size_t rank = 0; rank < counts.size(); ++rank)
    longest = std::max(longest, seconds_for(counts[rank], paces[rank]));
  return longest;
}

double share_reached(const std::vector<std::int32_t>& counts, const std::vector<Pace>& paces,
                     std::int32_t active) {
  const std::vector<Pace> known = known_paces(paces, active);
  const std::vector<std::int32_t> own(counts.begin(), counts.begin() + std::ssize(known));
  double speeds = 0;  // slices a second
  for (const Pace& pace : known) speeds += pace.lanes / pace.slice;
  const double seconds = computing_seconds(own, known);
  if (seconds <= 0) return 0;
  return std::accumulate(own.begin(), own.end(), 0) / seconds / speeds;
}

}  // namespace muster::train
