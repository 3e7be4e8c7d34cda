#include "muster/parallel/slice_meeting.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "muster/base/check.h"
#include "muster/parallel/tensor_bridge.h"

namespace muster::parallel {
namespace {

constexpr int kComputes = 0, kFollows = 1;  // colours

// Of those that own any, by rank what each is among them; others: kNoRank.
std::vector<Rank> places_of(const comm::LeafOwners& owners, std::int32_t ranks) {
  std::vector<Rank> places(static_cast<std::size_t>(ranks), kNoRank);
  std::int32_t next = 0;
  for (std::int32_t rank = 0; rank < ranks; ++rank)
    if (std::ranges::find(owners, Rank{rank}) != owners.end())
      places[static_cast<std::size_t>(rank)] = Rank{next++};
  return places;
}

Error uneven() {
  return fail(ErrorCode::kInternal,
              "[parallel/meeting] training.sync_batch_norm: a slice has come through fewer batch "
              "norms than "
              "others; every slice must take the same way through the model");
}

std::shared_ptr<const comm::SumTree> tree_of(const comm::LeafOwners& owners, std::int32_t ranks,
                                             bool ordered) {
  if (!ordered) return std::make_shared<const comm::SumTree>(ranks, ranks);
  return std::make_shared<const comm::SumTree>(owners, ranks);
}

std::int32_t size_of_group(const std::shared_ptr<comm::Communicator>& ranks) {
  return ranks ? ranks->group().size : 1;
}

}  // namespace

Result<std::unique_ptr<SliceMeeting>> SliceMeeting::create(comm::Communicator& communicator,
                                                           const comm::LeafOwners& owners,
                                                           const MeetingOptions& options,
                                                           Clock& clock) {
  const comm::Group group = communicator.group();
  const std::vector<Rank> places = places_of(owners, group.size);
  const bool computes = places[static_cast<std::size_t>(to_int(group.rank))] != kNoRank;
  const auto computing = std::ssize(places) - std::ranges::count(places, kNoRank);
  std::shared_ptr<comm::Communicator> ranks;
  if (computing > 1) {
    MUSTER_ASSIGN(ranks, communicator.split(computes ? kComputes : kFollows, to_int(group.rank)));
  }
  if (!computes) return nullptr;
  comm::LeafOwners among_them;
  for (const Rank owner : owners)
    among_them.push_back(places[static_cast<std::size_t>(to_int(owner))]);
  return std::unique_ptr<SliceMeeting>(
      new SliceMeeting(std::move(ranks), among_them, options, clock));
}

SliceMeeting::SliceMeeting(std::shared_ptr<comm::Communicator> ranks,
                           const comm::LeafOwners& owners, const MeetingOptions& options,
                           Clock& clock)
    : ranks_(std::move(ranks)),
      tree_(tree_of(owners, size_of_group(ranks_), options.ordered)),
      options_(options),
      clock_(clock),
      addends_(owners.size()) {}

void SliceMeeting::begin(std::int32_t units, std::optional<Duration> timeout) {
  const std::lock_guard lock(mutex_);
  units_ = units;
  timeout_ = timeout.value_or(options_.op.timeout);
  std::ranges::fill(addends_, at::Tensor());
  arrived_ = gone_ = running_ = 0;
  total_ = at::Tensor();
  failure_.reset();
  waited_ = {};
  bytes_ = 0;
}

SliceMeeting::Seat::Seat(SliceMeeting& meeting, std::int32_t unit)
    : meeting_(meeting), unit_(unit) {
  std::unique_lock lock(meeting_.mutex_);
  meeting_.take_turn(lock);
}

SliceMeeting::Seat::~Seat() {
  const std::lock_guard lock(meeting_.mutex_);
  meeting_.leave_turn();
}

at::Tensor SliceMeeting::Seat::sum(const at::Tensor& addend, std::string_view what) const {
  return meeting_.meet(unit_, addend, what);
}

void SliceMeeting::take_turn(std::unique_lock<std::mutex>& lock) {
  turns_.wait(lock, [this] { return running_ < options_.lanes; });
  ++running_;
}

void SliceMeeting::leave_turn() {
  --running_;
  turns_.notify_one();
}

// A unit always has a turn but in here, whatever the outcome.
at::Tensor SliceMeeting::meet(std::int32_t unit, const at::Tensor& addend, std::string_view what) {
  std::unique_lock lock(mutex_);
  leave_turn();
  addends_[static_cast<std::size_t>(unit)] = addend;
  if (gone_ > 0) end(uneven());
  if (++arrived_ == units_ && !failure_) {
    complete(lock, what);
  } else {
    met_.wait(lock, [&, meeting = meetings_] { return failure_ || meetings_ != meeting; });
  }
  take_turn(lock);
  if (failure_) throw std::runtime_error(failure_->message);
  return total_;
}

// By the last to come. All others wait, so that nothing changes while the lock is open.
void SliceMeeting::complete(std::unique_lock<std::mutex>& lock, std::string_view what) {
  lock.unlock();
  Result<at::Tensor> total = add_up(what);
  lock.lock();
  if (!total) return end(std::move(total).error());
  total_ = *std::move(total);
  arrived_ = 0;
  ++meetings_;
  met_.notify_all();
}

Result<at::Tensor> SliceMeeting::add_up(std::string_view what) {
  std::vector<at::Tensor> parts;
  if (options_.ordered) {
    const Rank me = ranks_ ? ranks_->group().rank : Rank{0};
    for (const comm::LeafRange part : tree_->parts(me)) parts.push_back(sum_of(part));
  } else {
    parts.push_back(sum_of({0, units_}));
  }
  const at::Tensor rows = at::stack(parts);
  if (ranks_) MUSTER_TRY(sum_over_ranks(rows, what));
  return rows[0];
}

at::Tensor SliceMeeting::sum_of(comm::LeafRange units) const {
  if (units.size() == 1) return addends_[static_cast<std::size_t>(units.begin)];
  const std::int32_t middle = comm::split_point(units);
  return sum_of({units.begin, middle}) + sum_of({middle, units.end});
}

Status SliceMeeting::sum_over_ranks(const at::Tensor& rows, std::string_view what) {
  comm::OpOptions op = options_.op;
  op.label = what;
  op.timeout = timeout_;
  const TimePoint began = clock_.now();
  const comm::Work work =
      ranks_->submit(comm::AllReduce{.buffer = view_over(rows), .tree = tree_}, op);
  work.on_done([rows](const Status&) {});  // its memory stays, whatever becomes of the step
  Status done = work.wait();
  waited_ += clock_.now() - began;
  bytes_ += rows.nbytes();
  return done;
}

void SliceMeeting::end(Error why) {
  if (!failure_) failure_ = std::move(why);
  met_.notify_all();
}

void SliceMeeting::give_up(const Error& why) {
  const std::lock_guard lock(mutex_);
  end(why);
}

// Whoever waits for it now, or comes later, would wait for ever.
void SliceMeeting::be_over() {
  const std::lock_guard lock(mutex_);
  ++gone_;
  if (arrived_ > 0) end(uneven());
}

Error SliceMeeting::cause_of(const Error& error) const { return failure_.value_or(error); }

}  // namespace muster::parallel
