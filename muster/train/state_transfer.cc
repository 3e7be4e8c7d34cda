#include "muster/train/state_transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "muster/base/exception_error.h"
#include "muster/base/units.h"
#include "muster/comm/sum_tree.h"
#include "muster/train/state_pieces.h"

namespace muster::train {
namespace {

enum Tag : std::uint32_t { kState = 1, kTaken, kCaughtUp };

// When this rank has sent its part, links may hold some pieces still, and others' come one by one.
constexpr int kPiecesUnderWay = 4;
// Steps take as long as they take; who waits for a taker at the end of one has a limit of its own.
constexpr Duration kBesideTheTraining = std::chrono::hours(24);

comm::LeafRange share_of(const std::vector<NamedTensor>& pieces, std::int32_t givers,
                         std::int32_t giver) {
  return comm::even_share(static_cast<std::int32_t>(pieces.size()), givers, giver);
}

}  // namespace

StateTransfer::StateTransfer(std::shared_ptr<comm::Communicator> communicator, std::int32_t givers,
                             parallel::Strategy& strategy, comm::OpOptions op, Clock& clock)
    : communicator_(std::move(communicator)),
      givers_(givers),
      op_(std::move(op)),
      clock_(clock),
      pieces_(cut_into_pieces(state_here(strategy))) {
  for (const NamedTensor& piece : pieces_) bytes_ += piece.tensor.bytes.size();
  if (gives()) {
    const comm::LeafRange mine = share_of(pieces_, givers_, me());
    pieces_ = {pieces_.begin() + mine.begin, pieces_.begin() + mine.end};
    copy_.emplace(memory_, std::vector<std::vector<NamedTensor>*>{&pieces_});
  }
  thread_ = std::thread([this] {
    Status outcome = without_exceptions("train/join", [this] { return gives() ? give() : take(); });
    const std::lock_guard lock(mutex_);
    outcome_ = std::move(outcome);
    ended_.notify_all();
  });
}

StateTransfer::~StateTransfer() {
  if (const auto over = done(); over && !*over)
    communicator_->abort(
        fail(ErrorCode::kCancelled, "[train/join] the newcomers' state is not needed any more"));
  thread_.join();
}

Duration StateTransfer::wait_until_copied() {
  const TimePoint began = clock_.now();
  if (copy_) copy_->finish();
  return clock_.now() - began;
}

Status StateTransfer::give() {
  copy_->finish();
  for (const NamedTensor& piece : pieces_) {
    std::vector<comm::Work> works;
    for (std::int32_t taker = givers_; taker < givers_ + takers(); ++taker) {
      works.push_back(communicator_->submit(
          comm::Send{.tensor = piece.tensor, .to = Rank{taker}, .tag = kState}, op_));
    }
    MUSTER_TRY(comm::wait_for_all(works));
  }
  return me() == 0 ? hear_of_takers() : ok();
}

// A piece of each giver at a time.
Status StateTransfer::take() {
  for (std::int32_t round = 0, more = 1; more > 0; ++round) {
    std::vector<comm::Work> works;
    for (std::int32_t giver = 0; giver < givers_; ++giver) {
      const comm::LeafRange share = share_of(pieces_, givers_, giver);
      if (round >= share.size()) continue;
      const auto& piece = pieces_[static_cast<std::size_t>(share.begin + round)];
      works.push_back(communicator_->submit(
          comm::Recv{.tensor = piece.tensor, .from = Rank{giver}, .tag = kState}, op_));
    }
    more = static_cast<std::int32_t>(works.size());
    MUSTER_TRY(comm::wait_for_all(works));
  }
  return tell(kTaken);
}

Status StateTransfer::hear_of_takers() {
  MUSTER_TRY(hear_all(kTaken, kPiecesUnderWay * op_.timeout));
  {
    const std::lock_guard lock(mutex_);
    taken_ = true;
    ended_.notify_all();
  }
  return hear_all(kCaughtUp, kBesideTheTraining);
}

Status StateTransfer::hear_all(std::uint32_t tag, Duration patience) {
  comm::OpOptions op = op_;
  op.timeout = patience;
  std::vector<std::uint8_t> said(static_cast<std::size_t>(takers()));
  std::vector<comm::Work> works;
  for (std::int32_t taker = 0; taker < takers(); ++taker) {
    const auto byte = std::span(said).subspan(static_cast<std::size_t>(taker), 1);
    works.push_back(communicator_->submit(
        comm::Recv{.tensor = view_of(byte), .from = Rank{givers_ + taker}, .tag = tag}, op));
  }
  Status outcome = ok();
  for (std::size_t taker = 0; taker < works.size(); ++taker) {
    await(Rank{givers_ + static_cast<std::int32_t>(taker)});
    Status heard = works[taker].wait();
    if (!heard && outcome) outcome = std::move(heard);
  }
  return outcome;
}

void StateTransfer::await(Rank taker) {
  const std::lock_guard lock(mutex_);
  awaited_ = taker;
}

Status StateTransfer::tell_caught_up() { return tell(kCaughtUp); }

Status StateTransfer::tell(std::uint32_t tag) {
  std::uint8_t byte = 1;
  return communicator_
      ->submit(comm::Send{.tensor = view_of(std::span(&byte, 1)), .to = Rank{0}, .tag = tag}, op_)
      .wait();
}

Result<bool> StateTransfer::done() const {
  const std::lock_guard lock(mutex_);
  if (!outcome_) return false;
  MUSTER_TRY(*outcome_);
  return true;
}

Status StateTransfer::wait(Duration patience) const {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [this] { return taken_ || outcome_; });
  const Deadline deadline = Deadline::after(clock_, patience);
  while (!outcome_ && !deadline.passed(clock_)) clock_.wait_until(lock, ended_, deadline.at());
  if (outcome_) return *outcome_;
  return fail(ErrorCode::kTimeout,
              fmt::format("[train/join] rank {} has got the state and did not catch up within {}; "
                          "see its log",
                          to_int(awaited_), format_duration(patience)),
              awaited_);
}

}  // namespace muster::train
