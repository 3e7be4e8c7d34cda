#include "muster/train/neighbour_copy.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "muster/train/state_pieces.h"

namespace muster::train {
namespace {

// Away from those of the strategies, whose messages pass by.
enum CopyTag : std::uint32_t { kSizes = 0x4E000000, kOwnState, kGiven };

Rank neighbour_of(const comm::Group& group) {
  return Rank{(to_int(group.rank) + group.size - 1) % group.size};
}

std::vector<NamedTensor> own_pieces(parallel::Strategy& strategy) {
  return cut_into_pieces(own_state(strategy));
}

TensorView view_over(std::vector<std::byte>& bytes) {
  return view_of(std::span(reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()));
}

}  // namespace

NeighbourCopy::~NeighbourCopy() {
  if (taking_.empty() && sending_.empty()) return;
  communicator_->abort(fail(ErrorCode::kCancelled,
                            "[train/redundancy] the neighbour's copy is not needed any more"));
  wait();
}

// Only its own keeper has to know the sizes of a rank's pieces; they stay the same.
Status NeighbourCopy::enter(std::shared_ptr<comm::Communicator> communicator,
                            parallel::Strategy& strategy, const comm::OpOptions& op) {
  wait();  // for what the end of the last generation has ended
  begun_.reset();
  communicator_ = std::move(communicator);
  op_ = op;
  const comm::Group& group = communicator_->group();
  std::vector<std::int64_t> sizes;
  for (const NamedTensor& piece : own_pieces(strategy))
    sizes.push_back(static_cast<std::int64_t>(piece.tensor.bytes.size()));
  auto count = static_cast<std::int64_t>(sizes.size());
  std::vector<std::int64_t> counts(static_cast<std::size_t>(group.size));
  MUSTER_TRY(communicator_
                 ->submit(comm::AllGather{.output = view_of(std::span(counts)),
                                          .input = view_of(std::span(&count, 1))},
                          op_)
                 .wait());
  const Rank neighbour = neighbour_of(group);
  std::vector<std::int64_t> theirs(
      static_cast<std::size_t>(counts[static_cast<std::size_t>(to_int(neighbour))]));
  MUSTER_TRY(comm::wait_for_all(
      {communicator_->submit(
           comm::Recv{.tensor = view_of(std::span(theirs)), .from = neighbour, .tag = kSizes}, op_),
       communicator_->submit(comm::Send{.tensor = view_of(std::span(sizes)),
                                        .to = keeper_of(group.rank, group.size),
                                        .tag = kSizes},
                             op_)}));
  pieces_.resize(theirs.size());
  for (std::size_t i = 0; i < theirs.size(); ++i)
    pieces_[i].resize(static_cast<std::size_t>(theirs[i]));
  return ok();
}

void NeighbourCopy::begin(parallel::Strategy& strategy, Step step) {
  if (begun_ == step) return;
  wait();
  kept_.reset();
  begun_ = step;
  const comm::Group& group = communicator_->group();
  for (std::vector<std::byte>& piece : pieces_)
    taking_.push_back(communicator_->submit(
        comm::Recv{.tensor = view_over(piece), .from = neighbour_of(group), .tag = kOwnState},
        op_));
  for (const NamedTensor& piece : own_pieces(strategy))
    sending_.push_back(communicator_->submit(
        comm::Send{
            .tensor = piece.tensor, .to = keeper_of(group.rank, group.size), .tag = kOwnState},
        op_));
}

Duration NeighbourCopy::wait() {
  if (taking_.empty() && sending_.empty()) return {};
  const TimePoint began = clock_.now();
  const bool taken = comm::wait_for_all(std::exchange(taking_, {})).has_value();
  if (taken) kept_ = begun_;
  static_cast<void>(comm::wait_for_all(std::exchange(sending_, {})));  // the generation ends by it
  return clock_.now() - began;
}

Status NeighbourCopy::give(parallel::Strategy& strategy) {
  const Rank to = neighbour_of(communicator_->group());
  std::vector<comm::Work> works;
  const auto send = [&](const TensorView& tensor) {
    works.push_back(
        communicator_->submit(comm::Send{.tensor = tensor, .to = to, .tag = kGiven}, op_));
  };
  for (std::vector<std::byte>& piece : pieces_) send(view_over(piece));
  for (const NamedTensor& piece : cut_into_pieces(strategy.replicated_state())) send(piece.tensor);
  return comm::wait_for_all(works);
}

Status NeighbourCopy::take(comm::Communicator& communicator, parallel::Strategy& strategy,
                           const comm::OpOptions& op) {
  const comm::Group& group = communicator.group();
  std::vector<comm::Work> works;
  const auto recv = [&](const TensorView& tensor) {
    works.push_back(communicator.submit(
        comm::Recv{.tensor = tensor, .from = keeper_of(group.rank, group.size), .tag = kGiven},
        op));
  };
  for (const NamedTensor& piece : own_pieces(strategy)) recv(piece.tensor);
  for (const NamedTensor& piece : cut_into_pieces(strategy.replicated_state())) recv(piece.tensor);
  return comm::wait_for_all(works);
}

}  // namespace muster::train
