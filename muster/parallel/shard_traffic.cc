#include "muster/parallel/shard_traffic.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/base/check.h"
#include "muster/comm/narrow.h"
#include "muster/parallel/float_sums.h"

namespace muster::parallel {
namespace {

constexpr std::uint32_t kTag = 32;
// Buckets that a rank may send before it has those of everybody that come first.
constexpr std::int64_t kAhead = 2;
// Pieces are waited for as long as it takes; how long is decided where their lack is felt.
constexpr Duration kAsLongAsItTakes = std::chrono::hours(1);

std::vector<std::int64_t> own_sizes(const ShardExchangeOptions& options, Rank rank) {
  std::vector<std::int64_t> sizes;
  sizes.reserve(options.shards.size());
  for (const auto& shards : options.shards) sizes.push_back(shards ? shards->count_of(rank) : 0);
  return sizes;
}

// Whole subtrees of the units that ranks here have.
std::vector<comm::LeafRange> parts_here(const ShardExchangeOptions& options,
                                        const comm::LeafOwners& owners) {
  if (options.tree) return options.tree->parts(options.copies->group().rank);
  if (owners.empty()) return {};
  return {comm::LeafRange{0, static_cast<std::int32_t>(owners.size())}};
}

}  // namespace

ShardTraffic::ShardTraffic(const std::shared_ptr<comm::Communicator>& communicator,
                           ShardExchangeOptions options, comm::LeafOwners owners,
                           std::int32_t width, Clock& clock)
    : communicator_(communicator),
      group_(communicator->group()),
      members_(communicator->members()),
      options_(std::move(options)),
      owners_(std::move(owners)),
      width_(width),
      clock_(clock),
      sums_(parts_here(options_, owners_), own_sizes(options_, group_.rank),
            options_.layout.dtypes),
      passes_(owners_.size(), 1),
      streams_(static_cast<std::size_t>(group_.size)) {
  for (std::size_t unit = 0; unit < owners_.size(); ++unit)
    if (owners_[unit] == group_.rank) own_.push_back(static_cast<std::int32_t>(unit));
}

comm::OpOptions ShardTraffic::op(Duration timeout, std::int32_t unit, std::int32_t bucket) const {
  comm::OpOptions options = options_.op;
  options.timeout = timeout;
  options.label = fmt::format("gradients/{} of slice {}", bucket, unit);
  return options;
}

// Each rank knows its own; the rest is zero.
Status ShardTraffic::exchange_passes(std::span<const std::int64_t> own) {
  MUSTER_CHECK(own.size() == own_.size(), "passes of every own unit");
  std::vector<std::int64_t> passes(owners_.size(), options_.several_passes ? 0 : 1);
  for (std::size_t i = 0; i < own.size(); ++i) passes[static_cast<std::size_t>(own_[i])] = own[i];
  const auto communicator = communicator_.lock();
  if (communicator && options_.several_passes && group_.size > 1) {
    comm::OpOptions options = options_.op;
    options.label = "micro-batches";
    MUSTER_TRY(communicator->submit(comm::AllReduce{.buffer = view_of(std::span(passes))}, options)
                   .wait());
  }
  const std::lock_guard lock(mutex_);
  passes_ = std::move(passes);
  return ok();
}

void ShardTraffic::plan() {
  turns_ = layout::plan_turns(owners_, width_, passes_);
  missing_.clear();
  for (const ShardTurn& turn : turns_) {
    const auto pieces = std::ranges::count_if(
        turn.units, [&](std::int32_t unit) { return owner(unit) != group_.rank; });
    for (std::int32_t bucket = 1; bucket < buckets(); ++bucket)
      missing_.push_back(
          shards(bucket).count_of(group_.rank) > 0 ? static_cast<std::int32_t>(pieces) : 0);
  }
}

Status ShardTraffic::begin(std::span<const std::int64_t> passes) {
  MUSTER_TRY(exchange_passes(passes));
  Later later;
  {
    const Lock lock(mutex_);
    if (failure_) return *failure_;
    plan();
    sums_.begin();
    staged_.clear();
    ready_ = next_ = through_ = 0;
    window_ = sent_ = 0;
    progress_ = clock_.now();
    for (Stream& stream : streams_) stream.item = 0, stream.unit = 0;
    while (through_ < items() && missing_[static_cast<std::size_t>(through_)] == 0) ++through_;
    advance(later);
    for (std::int32_t rank = 0; rank < group_.size; ++rank)
      if (Rank{rank} != group_.rank) listen(Rank{rank}, later);
  }
  for (const auto& call : later) call();
  return ok();
}

void ShardTraffic::add(std::int32_t unit, std::int32_t slot, std::span<const float> values,
                       std::int32_t pass, std::int32_t passes) {
  const BucketSlot& place = options_.layout.slots[static_cast<std::size_t>(slot)];
  const std::int32_t index = number_of(unit);
  MUSTER_DCHECK(passes == passes_of(index), "as begin() was told");
  (void)passes;
  Staged& staged = stage({index, pass, place.bucket});
  if (staged.dropped) return;
  std::ranges::copy(values, staged.floats.begin() + place.offset);
  if (--staged.slots_left > 0) return;
  const DType dtype = dtype_of(index, place.bucket);
  if (dtype != DType::kF32) {
    round_as(dtype, staged.floats.data(), staged.floats.size());
    staged.narrow.resize(staged.floats.size() * size_of(dtype));
    comm::narrow(dtype, staged.floats, staged.narrow.data());
  }
  Later later;
  {
    const Lock lock(mutex_);
    staged.ready = true;
    ++ready_;
    advance(later);
  }
  for (const auto& call : later) call();
}

ShardTraffic::Staged& ShardTraffic::stage(const Key& key) {
  Lock lock(mutex_);
  const auto found = staged_.find(key);
  if (found != staged_.end()) return *found->second;
  const Status waited =
      wait_in_step(lock, [&] { return failure_ || !must_wait(std::get<0>(key)); });
  if (!waited) stop(waited.error());
  auto& staged = staged_[key] = std::make_shared<Staged>();
  staged->dropped = failure_.has_value();
  if (failure_) return *staged;
  const auto bucket = static_cast<std::size_t>(std::get<2>(key));
  if (!spare_.empty()) {
    staged->floats = std::move(spare_.back());
    spare_.pop_back();
  }
  staged->floats.resize(static_cast<std::size_t>(options_.layout.sizes[bucket]));
  staged->slots_left = options_.layout.slots_in[bucket];
  window_ += staged->floats.size() * sizeof(float);
  most_window_ = std::max(most_window_, window_);
  return *staged;
}

// Whether the lane of `unit` has got too far: some of its rank's buckets are ready and may not go
// yet, and that is not for lack of something of this unit.
bool ShardTraffic::must_wait(std::int32_t unit) const {
  if (ready_ < width_ * kAhead || next_ == items()) return false;
  const Item item = item_at(next_);
  return std::ranges::none_of(item.turn.units, [&](std::int32_t other) {
    if (other != unit) return false;
    const auto staged = staged_.find({unit, item.turn.pass, item.bucket});
    return staged == staged_.end() || !staged->second->ready;
  });
}

bool ShardTraffic::own_ready(const Item& item) const {
  return std::ranges::all_of(item.turn.units, [&](std::int32_t unit) {
    if (owner(unit) != group_.rank) return true;
    const auto staged = staged_.find({unit, item.turn.pass, item.bucket});
    return staged != staged_.end() && staged->second->ready;
  });
}

// Sends what is ready and may go.
void ShardTraffic::advance(Later& later) {
  for (; !failure_ && next_ < items() && next_ < through_ + kAhead; ++next_) {
    const Item item = item_at(next_);
    if (!own_ready(item)) break;
    send(item, later);
  }
  changed_.notify_all();
}

void ShardTraffic::send(const Item& item, Later& later) {
  for (const std::int32_t unit : item.turn.units)
    if (owner(unit) == group_.rank) send_unit(unit, item, later);
}

void ShardTraffic::send_unit(std::int32_t unit, const Item& item, Later& later) {
  const auto found = staged_.find({unit, item.turn.pass, item.bucket});
  const std::shared_ptr<Staged> staged = std::move(found->second);
  staged_.erase(found);
  --ready_;
  const comm::Shards& cut = shards(item.bucket);
  const auto part = [&](auto whole, Rank rank, std::size_t each) {
    return whole.subspan(static_cast<std::size_t>(cut.begin_of(rank)) * each,
                         static_cast<std::size_t>(cut.count_of(rank)) * each);
  };
  const auto own = part(std::span<const float>(staged->floats), group_.rank, 1);
  const auto passes = static_cast<std::int32_t>(passes_of(unit));
  if (!own.empty())
    sums_.add(unit, static_cast<std::size_t>(item.bucket), own, item.turn.pass, passes);
  const DType dtype = dtype_of(unit, item.bucket);
  const auto bytes = dtype == DType::kF32 ? std::as_writable_bytes(std::span(staged->floats))
                                          : std::span(staged->narrow);
  const auto left = std::make_shared<std::int32_t>(1);  // sends, and this one
  const auto gone = [self = shared_from_this(), staged, left](const Status& status) {
    const Lock lock(self->mutex_);
    if (!status) self->stop(status.error());
    if (--*left == 0) self->release(*staged);
    --self->leaving_;
    self->changed_.notify_all();
  };
  const auto communicator = communicator_.lock();
  for (std::int32_t next = 1; communicator && next < group_.size; ++next) {
    const Rank to{(to_int(group_.rank) + next) % group_.size};
    const auto piece = part(bytes, to, size_of(dtype));
    if (piece.empty()) continue;
    ++*left;
    ++leaving_;
    sent_ += piece.size();
    const TensorView view{dtype, {cut.count_of(to)}, piece};
    const auto work = communicator->submit(comm::Send{.tensor = view, .to = to, .tag = kTag},
                                           op(options_.op.timeout, unit, item.bucket));
    later.emplace_back([work, gone] { work.on_done(gone); });
  }
  if (--*left == 0) release(*staged);
}

// Its memory serves another one, as long as few are enough.
void ShardTraffic::release(Staged& staged) {
  window_ -= staged.floats.size() * sizeof(float);
  if (spare_.size() < static_cast<std::size_t>(width_ * kAhead))
    spare_.push_back(std::move(staged.floats));
}

// To the next piece that `from` has for this rank; none: it has none left.
bool ShardTraffic::seek(Rank from, Stream& stream) const {
  for (; stream.item < items(); ++stream.item, stream.unit = 0) {
    const Item item = item_at(stream.item);
    if (shards(item.bucket).count_of(group_.rank) == 0) continue;
    for (; stream.unit < item.turn.units.size(); ++stream.unit)
      if (owner(item.turn.units[stream.unit]) == from) return true;
  }
  return false;
}

// The next piece, where there is one. In the same breath as the one before was counted: else a step
// could begin in between.
void ShardTraffic::listen(Rank from, Later& later) {
  const auto communicator = communicator_.lock();
  Stream& stream = streams_[static_cast<std::size_t>(to_int(from))];
  if (failure_ || !communicator || !seek(from, stream)) return;
  const Item item = item_at(stream.item);
  const std::int32_t unit = item.turn.units[stream.unit];
  stream.bytes.resize(piece_bytes(unit, item.bucket, group_.rank));
  const TensorView view{dtype_of(unit, item.bucket),
                        {shards(item.bucket).count_of(group_.rank)},
                        std::span(stream.bytes)};
  const auto work = communicator->submit(comm::Recv{.tensor = view, .from = from, .tag = kTag},
                                         op(kAsLongAsItTakes, unit, item.bucket));
  later.emplace_back([self = shared_from_this(), from, work] {
    work.on_done([self, from](const Status& status) { self->arrived(from, status); });
  });
}

void ShardTraffic::arrived(Rank from, const Status& status) {
  Later later;
  {
    const Lock lock(mutex_);
    if (failure_) return;
    if (status)
      take_in(from, later);
    else if (status.error().code != ErrorCode::kTimeout)
      stop(status.error());
    listen(from, later);
  }
  for (const auto& call : later) call();
}

void ShardTraffic::take_in(Rank from, Later& later) {
  Stream& stream = streams_[static_cast<std::size_t>(to_int(from))];
  const Item item = item_at(stream.item);
  const std::int32_t unit = item.turn.units[stream.unit];
  const auto count = static_cast<std::size_t>(shards(item.bucket).count_of(group_.rank));
  const DType dtype = dtype_of(unit, item.bucket);
  std::span<const float> values;
  if (dtype == DType::kF32) {
    values = {reinterpret_cast<const float*>(stream.bytes.data()), count};
  } else {
    stream.wide.resize(count);
    comm::widen(dtype, stream.bytes.data(), stream.wide);
    values = stream.wide;
  }
  sums_.add(unit, static_cast<std::size_t>(item.bucket), values, item.turn.pass,
            static_cast<std::int32_t>(passes_of(unit)));
  --missing_[static_cast<std::size_t>(stream.item)];
  ++stream.unit;
  progress_ = clock_.now();
  while (through_ < items() && missing_[static_cast<std::size_t>(through_)] == 0) ++through_;
  advance(later);
}

// The first reason stays.
void ShardTraffic::stop(const Error& why) {
  if (!failure_) failure_ = why;
  changed_.notify_all();
}

void ShardTraffic::give_up(const Error& why) {
  const Lock lock(mutex_);
  stop(why);
}

Error ShardTraffic::nothing_came() const {
  Rank late = kNoRank;
  for (std::int32_t rank = 0; rank < group_.size && late == kNoRank; ++rank) {
    const Stream& stream = streams_[static_cast<std::size_t>(rank)];
    if (Rank{rank} != group_.rank && stream.item <= through_)
      late = members_[static_cast<std::size_t>(rank)];
  }
  return fail(ErrorCode::kTimeout,
              fmt::format("[parallel/shards] rank {} sent nothing of its slices' gradients within "
                          "{:.0f}s in generation {}; see its log, and raise communication.timeout "
                          "if a slice takes longer",
                          to_int(late), std::chrono::duration<double>(options_.op.timeout).count(),
                          to_int(group_.generation)),
              late);
}

// For what depends on others: as long as something comes, or nothing has for too short a time.
Status ShardTraffic::wait_in_step(Lock& lock, const std::function<bool()>& over) {
  const TimePoint begun = clock_.now();
  while (!over()) {
    const TimePoint until = std::max(begun, progress_) + options_.op.timeout;
    if (clock_.now() >= until) return nothing_came();
    clock_.wait_until(lock, changed_, until);
  }
  return ok();
}

Status ShardTraffic::finish() {
  Lock lock(mutex_);
  const Status waited = wait_in_step(
      lock, [&] { return failure_ || (next_ == items() && through_ == items() && leaving_ == 0); });
  if (!waited) stop(waited.error());
  if (failure_) return *failure_;
  MUSTER_CHECK(staged_.empty(), "every slot of every unit was added");
  return ok();
}

std::vector<std::int32_t> ShardTraffic::own_by_turn() const {
  return layout::own_by_turn(turns_, owners_, group_.rank);
}

std::size_t ShardTraffic::turn_of(std::int32_t unit, std::int32_t pass) const {
  const auto turn = std::ranges::find_if(turns_, [&](const ShardTurn& t) {
    return t.pass == pass && std::ranges::count(t.units, number_of(unit)) > 0;
  });
  MUSTER_CHECK(turn != turns_.end(), "a pass that begin() was told");
  return static_cast<std::size_t>(turn - turns_.begin());
}

std::uint64_t ShardTraffic::bytes() const {
  const Lock lock(mutex_);
  return sent_;
}

std::uint64_t ShardTraffic::sum_bytes() const {
  const Lock lock(mutex_);
  return sums_.bytes();
}

std::uint64_t ShardTraffic::window_bytes() const {
  const Lock lock(mutex_);
  std::uint64_t bytes = most_window_;
  for (const Stream& stream : streams_)
    bytes += stream.bytes.capacity() + stream.wide.capacity() * sizeof(float);
  return bytes;
}

}  // namespace muster::parallel
