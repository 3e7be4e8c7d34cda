#include "muster/parallel/weight_gathers.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <utility>

#include "muster/base/check.h"
#include "muster/parallel/tensor_bridge.h"

namespace muster::parallel {
namespace {

// Aligned as libtorch has it: kernels choose by it, and the bits must not depend on who allocated.
class Floats {
 public:
  explicit Floats(std::size_t count)
      : count_(count),
        floats_(static_cast<float*>(::operator new(count * sizeof(float), kAlignment))) {}
  ~Floats() { ::operator delete(floats_, kAlignment); }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;

  std::span<float> all() const noexcept { return {floats_, count_}; }
  std::uint64_t bytes() const noexcept { return count_ * sizeof(float); }

 private:
  static constexpr std::align_val_t kAlignment{64};
  const std::size_t count_;
  float* const floats_;
};

// All that shares this storage, in other lanes' models and in graphs, sees the same.
void point(const at::Tensor& parameter, float* memory) {
  parameter.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(
      at::DataPtr(memory, parameter.device()));
}

void check(const WeightBucket& bucket, c10::Device device) {
  for (const WeightBucket::Place& place : bucket.places) {
    const at::Tensor& tensor = place.parameter;
    MUSTER_CHECK(tensor.device() == device && tensor.scalar_type() == at::kFloat &&
                     tensor.is_contiguous() && tensor.storage_offset() == 0,
                 "a parameter lies at the beginning of memory of its own");
  }
}

// Of this rank's shard and everybody's, to the floats of the whole.
comm::AllGather gather_to(std::span<float> whole, const WeightBucket& bucket, Rank rank) {
  if (!bucket.packed)
    return {.output = view_of(whole),
            .input = view_of(std::span(*bucket.own)),
            .shards = bucket.shards};
  return {.output = bucket.packed->words_in(whole),
          .input = bucket.packed->pack(*bucket.own, rank, whole),
          .shards = bucket.packed->shards()};
}

c10::Device device_of(const std::vector<WeightBucket>& buckets) {
  for (const WeightBucket& bucket : buckets)
    for (const WeightBucket::Place& place : bucket.places) return place.parameter.device();
  return c10::kCPU;
}

}  // namespace

std::uint64_t WeightBucket::sent_bytes(Rank rank) const {
  const auto count =
      static_cast<std::uint64_t>((packed ? packed->shards() : shards)->count_of(rank));
  return count * (packed ? sizeof(std::uint16_t) : sizeof(float));
}

// What arrives is handled on the communicator's thread. It holds this state, which therefore must
// not hold the communicator.
class WeightGathers::State : public std::enable_shared_from_this<State> {
 public:
  State(const std::shared_ptr<comm::Communicator>& communicator, std::vector<WeightBucket> buckets,
        std::vector<std::vector<std::size_t>> needed, comm::OpOptions op)
      : communicator_(communicator),
        buckets_(std::move(buckets)),
        needed_(std::move(needed)),
        op_(std::move(op)),
        device_(device_of(buckets_)),
        here_(buckets_.size()) {
    for (const WeightBucket& bucket : buckets_) {
      check(bucket, device_);
      for (const WeightBucket::Place& place : bucket.places) point(place.parameter, nullptr);
    }
  }

  Status begin(std::vector<WeightUse> uses) {
    return locked([&](Later& later) -> Status {
      if (failure_) return *failure_;
      MUSTER_CHECK(front_ == uses_.size(), "the uses before are over");
      uses_ = std::move(uses);
      left_.assign(uses_.size(), 0);
      front_ = begun_ = 0;
      sent_ = 0;
      advance(later);
      return ok();
    });
  }

  Status enter(std::size_t use) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return failure_ || (use < begun_ && has(use)); });
    if (failure_) return *failure_;
    return ok();
  }

  void leave(std::size_t use) {
    (void)locked([&](Later& later) -> Status {
      ++left_[use];
      advance(later);
      return ok();
    });
  }

  void give_up(const Error& why) {
    const std::lock_guard lock(mutex_);
    stop(why);
  }

  Status finish() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return failure_ || front_ == uses_.size(); });
    if (failure_) return *failure_;
    return ok();
  }

  // What is still under way arrives nowhere.
  void end() {
    const std::lock_guard lock(mutex_);
    stop(fail(ErrorCode::kCancelled, "[parallel/weights] nobody wants them any more"));
    for (std::size_t bucket = 0; bucket < here_.size(); ++bucket) forget(bucket);
  }

  std::uint64_t sent_bytes() const {
    const std::lock_guard lock(mutex_);
    return sent_;
  }
  std::uint64_t most_bytes() const {
    const std::lock_guard lock(mutex_);
    return most_bytes_;
  }
  std::uint64_t bytes_here() const {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }

 private:
  using Later = std::vector<std::function<void()>>;  // to do once the mutex is free
  struct Whole {                                     // a bucket
    std::shared_ptr<const Floats> floats;            // none: not here
    at::Tensor elsewhere;                            // a copy, where the parameters are not there
    bool arrived = false;

    // For the parameters.
    float* memory() const {
      if (!elsewhere.defined()) return floats->all().data();
      copy_over(floats->all(), elsewhere);
      return elsewhere.data_ptr<float>();
    }
  };

  template <class Body>
  Status locked(const Body& body) {
    Later later;
    Status outcome = ok();
    {
      const std::lock_guard lock(mutex_);
      outcome = body(later);
    }
    for (const auto& call : later) call();
    return outcome;
  }

  const std::vector<std::size_t>& needed(std::size_t use) const {
    return needed_[uses_[use].block];
  }
  bool has(std::size_t use) const {
    return std::ranges::all_of(needed(use), [&](std::size_t b) { return here_[b].arrived; });
  }
  bool needs(std::size_t use, std::size_t bucket) const {
    return use < uses_.size() && std::ranges::count(needed(use), bucket) > 0;
  }

  // The front is the first use that somebody here has not left, and that which comes next is
  // gathered. A use of nobody here is over when its weights have come: others have this rank's.
  void advance(Later& later) {
    while (!failure_) {
      while (begun_ < std::min(front_ + 2, uses_.size())) gather_for(begun_++, later);
      if (front_ == uses_.size() || left_[front_] < uses_[front_].users || !has(front_)) break;
      ++front_;
      forget_what_is_over();
    }
    changed_.notify_all();
  }

  void gather_for(std::size_t use, Later& later) {
    for (const std::size_t bucket : needed(use))
      if (!here_[bucket].floats) gather(bucket, later);
  }

  void gather(std::size_t bucket, Later& later) {
    const WeightBucket& cut = buckets_[bucket];
    auto floats = std::make_shared<const Floats>(static_cast<std::size_t>(cut.shards->count()));
    here_[bucket] = {floats, room_elsewhere(cut.shards->count()), false};
    bytes_ += floats->bytes();
    most_bytes_ = std::max(most_bytes_, bytes_);
    const auto communicator = communicator_.lock();
    if (!communicator) return;
    const comm::Group& group = communicator->group();
    sent_ += cut.sent_bytes(group.rank) * static_cast<std::uint64_t>(group.size - 1);
    comm::OpOptions options = op_;
    options.label = fmt::format("weights/{}", bucket);
    const auto work = communicator->submit(gather_to(floats->all(), cut, group.rank), options);
    later.emplace_back([self = shared_from_this(), work, floats, bucket] {
      work.on_done([self, floats, bucket](const Status& status) {
        const auto& packed = self->buckets_[bucket].packed;
        if (status && packed) packed->unpack(floats->all());
        self->arrived(bucket, status);
      });
    });
  }

  at::Tensor room_elsewhere(std::int64_t count) const {
    if (device_.is_cpu()) return {};
    return at::empty({count}, at::TensorOptions(at::kFloat).device(device_));
  }

  void arrived(std::size_t bucket, const Status& status) {
    (void)locked([&](Later& later) -> Status {
      if (!status) stop(status.error());
      if (failure_) return ok();
      here_[bucket].arrived = true;
      float* const memory = here_[bucket].memory();
      for (const WeightBucket::Place& place : buckets_[bucket].places)
        point(place.parameter, memory + place.offset);
      advance(later);
      return ok();
    });
  }

  void forget_what_is_over() {
    for (std::size_t bucket = 0; bucket < here_.size(); ++bucket)
      if (!needs(front_, bucket) && !needs(front_ + 1, bucket)) forget(bucket);
  }

  void forget(std::size_t bucket) {
    if (!here_[bucket].floats) return;
    for (const WeightBucket::Place& place : buckets_[bucket].places)
      point(place.parameter, nullptr);
    bytes_ -= here_[bucket].floats->bytes();
    here_[bucket] = {};
  }

  // The first reason stays.
  void stop(const Error& why) {
    if (!failure_) failure_ = why;
    changed_.notify_all();
  }

  const std::weak_ptr<comm::Communicator> communicator_;
  const std::vector<WeightBucket> buckets_;
  const std::vector<std::vector<std::size_t>> needed_;
  const comm::OpOptions op_;
  const c10::Device device_;  // of the parameters

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::vector<Whole> here_;  // by bucket
  std::vector<WeightUse> uses_;
  std::vector<std::int32_t> left_;  // users, by use
  std::size_t front_ = 0;
  std::size_t begun_ = 0;  // uses whose gathers have begun
  std::optional<Error> failure_;
  std::uint64_t bytes_ = 0, most_bytes_ = 0, sent_ = 0;
};

Result<std::unique_ptr<WeightGathers>> WeightGathers::create(
    comm::Communicator& communicator, std::vector<WeightBucket> buckets,
    std::vector<std::vector<std::size_t>> needed, comm::OpOptions op) {
  MUSTER_ASSIGN(auto own, communicator.split(0, to_int(communicator.group().rank)));
  auto state = std::make_shared<State>(own, std::move(buckets), std::move(needed), std::move(op));
  return std::unique_ptr<WeightGathers>(new WeightGathers(std::move(own), std::move(state)));
}

WeightGathers::WeightGathers(std::shared_ptr<comm::Communicator> communicator,
                             std::shared_ptr<State> state)
    : communicator_(std::move(communicator)), state_(std::move(state)) {}

WeightGathers::~WeightGathers() { state_->end(); }

Status WeightGathers::begin(std::vector<WeightUse> uses) { return state_->begin(std::move(uses)); }
Status WeightGathers::enter(std::size_t use) { return state_->enter(use); }
void WeightGathers::leave(std::size_t use) { state_->leave(use); }
void WeightGathers::give_up(const Error& why) { state_->give_up(why); }
Status WeightGathers::finish() { return state_->finish(); }
std::uint64_t WeightGathers::sent_bytes() const { return state_->sent_bytes(); }
std::uint64_t WeightGathers::most_bytes() const { return state_->most_bytes(); }
std::uint64_t WeightGathers::bytes_here() const { return state_->bytes_here(); }

}  // namespace muster::parallel
