#include "muster/parallel/slice_backup.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

namespace muster::parallel {
namespace {

enum Tag : std::uint32_t { kAsk = 16, kAnswer, kSliceGradients };

constexpr std::int64_t kNothing = -1;
constexpr std::int64_t kNotBegun = -2;
// Questions are waited for as long as the generation lasts, and none lasts so long.
constexpr Duration kWhileGenerationLasts = std::chrono::hours(24 * 365);

template <class T>
TensorView one(T& value) {
  return view_of(std::span<T>(&value, 1));
}

}  // namespace

// What comes in is handled on the communicator's thread. It holds this state, which therefore must
// not hold the communicator.
class SliceBackup::State : public std::enable_shared_from_this<State> {
 public:
  State(const std::shared_ptr<comm::Communicator>& communicator, std::size_t floats,
        comm::OpOptions op)
      : communicator_(communicator),
        group_(communicator->group()),
        floats_(floats),
        op_(std::move(op)),
        asked_(static_cast<std::size_t>(group_.size)) {}

  void listen_to(Rank rank);

  void open(std::vector<std::int32_t> units);
  std::optional<std::vector<float>> claim(std::int32_t unit);
  std::int32_t close();

  Result<Answers> ask();
  Result<std::int64_t> ask(comm::Communicator& communicator, Rank owner);
  Status give(const Loan& loan, std::span<float> floats);

 private:
  comm::OpOptions op_for(std::string label, std::optional<Duration> timeout = {}) const;
  std::int64_t this_round();
  std::int64_t lend(std::int64_t round);
  void answer(Rank rank);
  void expect(Rank rank, std::int64_t round, std::int64_t unit);
  void arrived(std::int64_t round, std::int64_t unit, std::vector<float> floats);

  const std::weak_ptr<comm::Communicator> communicator_;
  const comm::Group group_;
  const std::size_t floats_;
  const comm::OpOptions op_;
  std::vector<std::int64_t> asked_;  // by rank: the round it is in; for the callbacks only

  std::mutex mutex_;
  std::int64_t round_ = 0;  // steps so far, alike on all ranks; guarded by mutex_, as all below
  std::vector<std::int32_t> open_;                      // not begun, not lent
  std::map<std::int64_t, std::vector<float>> arrived_;  // by unit
  std::vector<std::int64_t> lent_;                      // not claimed yet
  std::int32_t count_ = 0;
};

comm::OpOptions SliceBackup::State::op_for(std::string label,
                                           std::optional<Duration> timeout) const {
  comm::OpOptions op = op_;
  op.label = std::move(label);
  if (timeout) op.timeout = *timeout;
  return op;
}

void SliceBackup::State::listen_to(Rank rank) {
  const auto communicator = communicator_.lock();
  if (!communicator) return;
  std::int64_t& round = asked_[static_cast<std::size_t>(to_int(rank))];
  communicator
      ->submit(comm::Recv{.tensor = one(round), .from = rank, .tag = kAsk},
               op_for("questions for slices", kWhileGenerationLasts))
      .on_done([self = shared_from_this(), rank](const Status& status) {
        if (!status) return;  // the generation is over, which every later question would be told
        self->answer(rank);
        self->listen_to(rank);
      });
}

void SliceBackup::State::answer(Rank rank) {
  const std::int64_t round = asked_[static_cast<std::size_t>(to_int(rank))];
  const auto unit = std::make_shared<std::int64_t>(lend(round));
  if (*unit >= 0) expect(rank, round, *unit);
  if (const auto communicator = communicator_.lock())
    communicator
        ->submit(comm::Send{.tensor = one(*unit), .to = rank, .tag = kAnswer},
                 op_for("answers about slices"))
        .on_done([unit](const Status&) {});
}

void SliceBackup::State::expect(Rank rank, std::int64_t round, std::int64_t unit) {
  const auto communicator = communicator_.lock();
  if (!communicator) return;
  const auto floats = std::make_shared<std::vector<float>>(floats_);
  communicator
      ->submit(
          comm::Recv{.tensor = view_of(std::span(*floats)), .from = rank, .tag = kSliceGradients},
          op_for("slices computed by others", kWhileGenerationLasts))
      .on_done([self = shared_from_this(), floats, round, unit](const Status& status) {
        if (status) self->arrived(round, unit, std::move(*floats));
      });
}

std::int64_t SliceBackup::State::this_round() {
  const std::lock_guard lock(mutex_);
  return round_;
}

std::int64_t SliceBackup::State::lend(std::int64_t round) {
  const std::lock_guard lock(mutex_);
  if (round > round_) return kNotBegun;
  if (round < round_ || open_.empty()) return kNothing;
  const std::int32_t unit = open_.back();
  open_.pop_back();
  lent_.push_back(unit);
  return unit;
}

void SliceBackup::State::arrived(std::int64_t round, std::int64_t unit, std::vector<float> floats) {
  const std::lock_guard lock(mutex_);
  if (round != round_ || std::ranges::find(lent_, unit) == lent_.end()) return;
  arrived_[unit] = std::move(floats);
}

void SliceBackup::State::open(std::vector<std::int32_t> units) {
  const std::lock_guard lock(mutex_);
  ++round_;
  open_ = std::move(units);
}

std::optional<std::vector<float>> SliceBackup::State::claim(std::int32_t unit) {
  const std::lock_guard lock(mutex_);
  std::erase(open_, unit);
  std::erase(lent_, unit);
  const auto found = arrived_.find(unit);
  if (found == arrived_.end()) return std::nullopt;
  ++count_;
  return std::move(found->second);
}

std::int32_t SliceBackup::State::close() {
  const std::lock_guard lock(mutex_);
  open_.clear();
  lent_.clear();
  arrived_.clear();
  return std::exchange(count_, 0);
}

Result<Answers> SliceBackup::State::ask() {
  Answers answers;
  const auto communicator = communicator_.lock();
  for (std::int32_t next = 1; communicator && next < group_.size; ++next) {
    const Rank owner{(to_int(group_.rank) + next) % group_.size};
    MUSTER_ASSIGN(const std::int64_t unit, ask(*communicator, owner));
    if (unit >= 0) return Answers{.loan = Loan{owner, static_cast<std::int32_t>(unit)}};
    if (unit == kNotBegun) answers.ask_again = true;
  }
  return answers;
}

Result<std::int64_t> SliceBackup::State::ask(comm::Communicator& communicator, Rank owner) {
  std::int64_t round = this_round();
  std::int64_t unit = kNothing;
  const auto asking = communicator.submit(
      comm::Send{.tensor = one(round), .to = owner, .tag = kAsk}, op_for("questions for slices"));
  const auto answering =
      communicator.submit(comm::Recv{.tensor = one(unit), .from = owner, .tag = kAnswer},
                          op_for("answers about slices"));
  const Status asked = asking.wait();
  const Status answered = answering.wait();
  MUSTER_TRY(asked);
  MUSTER_TRY(answered);
  return unit;
}

Status SliceBackup::State::give(const Loan& loan, std::span<float> floats) {
  const auto communicator = communicator_.lock();
  if (!communicator) return ok();
  return communicator
      ->submit(comm::Send{.tensor = view_of(floats), .to = loan.owner, .tag = kSliceGradients},
               op_for("slices computed for others"))
      .wait();
}

SliceBackup::SliceBackup(const std::shared_ptr<comm::Communicator>& communicator,
                         std::size_t floats, comm::OpOptions op)
    : state_(std::make_shared<State>(communicator, floats, std::move(op))) {
  const comm::Group& group = communicator->group();
  for (std::int32_t rank = 0; rank < group.size; ++rank)
    if (Rank{rank} != group.rank) state_->listen_to(Rank{rank});
}

SliceBackup::~SliceBackup() { state_->close(); }

void SliceBackup::open(std::vector<std::int32_t> units) { state_->open(std::move(units)); }
std::optional<std::vector<float>> SliceBackup::claim(std::int32_t unit) {
  return state_->claim(unit);
}
std::int32_t SliceBackup::close() { return state_->close(); }
Result<Answers> SliceBackup::ask() { return state_->ask(); }
Status SliceBackup::give(const Loan& loan, std::span<float> floats) {
  return state_->give(loan, floats);
}

}  // namespace muster::parallel
