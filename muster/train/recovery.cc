#include "muster/train/recovery.h"

#include <span>
#include <string>
#include <utility>

namespace muster::train {
namespace {

Status broadcast(comm::Communicator& communicator, Rank leader, const TensorView& tensor,
                 const comm::OpOptions& options) {
  return communicator.submit(comm::Broadcast{.buffer = tensor, .root = leader}, options).wait();
}

// The leader's text, on every rank.
Result<std::string> broadcast_text(comm::Communicator& communicator, Rank leader, std::string text,
                                   const comm::OpOptions& options) {
  auto size = static_cast<std::int64_t>(text.size());
  MUSTER_TRY(broadcast(communicator, leader, view_of(std::span(&size, 1)), options));
  text.resize(static_cast<std::size_t>(size));
  const std::span bytes(reinterpret_cast<std::uint8_t*>(text.data()), text.size());
  MUSTER_TRY(broadcast(communicator, leader, view_of(bytes), options));
  return text;
}

}  // namespace

Result<std::vector<Standing>> exchange_standings(comm::Communicator& communicator,
                                                 const Standing& mine,
                                                 const comm::OpOptions& options) {
  auto words = mine.pack();
  const auto size = static_cast<std::size_t>(communicator.group().size);
  std::vector<std::int64_t> all(size * words.size());
  MUSTER_TRY(communicator
                 .submit(comm::AllGather{.output = view_of(std::span(all)),
                                         .input = view_of(std::span<std::int64_t>(words))},
                         options)
                 .wait());
  std::vector<Standing> standings;
  standings.reserve(size);
  for (std::size_t rank = 0; rank < size; ++rank)
    standings.push_back(Standing::unpack(all.data() + rank * words.size()));
  return standings;
}

Status copy_state(comm::Communicator& communicator, Rank leader, parallel::Strategy& strategy,
                  Position& position, const comm::OpOptions& options) {
  for (const parallel::StateSlice& slice : state_here(strategy))
    MUSTER_TRY(broadcast(communicator, leader, slice.tensor, options));
  return copy_position(communicator, leader, strategy, position, options);
}

Status copy_parts(comm::Communicator& communicator, const std::vector<Rank>& sources,
                  parallel::Strategy& strategy, const comm::OpOptions& options) {
  const Rank me = communicator.group().rank;
  const Rank source = sources[static_cast<std::size_t>(to_int(me))];
  std::vector<comm::Work> works;
  const auto copy = [&](const TensorView& tensor) {
    if (source != me)
      works.push_back(communicator.submit(comm::Recv{.tensor = tensor, .from = source}, options));
    for (std::size_t rank = 0; rank < sources.size(); ++rank) {
      const Rank taker{static_cast<std::int32_t>(rank)};
      if (sources[rank] == me && taker != me)
        works.push_back(communicator.submit(comm::Send{.tensor = tensor, .to = taker}, options));
    }
  };
  for (const parallel::StateSlice& slice : state_here(strategy)) copy(slice.tensor);
  return comm::wait_for_all(works);
}

Status copy_position(comm::Communicator& communicator, Rank leader, parallel::Strategy& strategy,
                     Position& position, const comm::OpOptions& options) {
  MUSTER_ASSIGN(const std::string text,
                broadcast_text(communicator, leader, encode(position), options));
  if (communicator.group().rank == leader) return ok();
  MUSTER_ASSIGN(position, decode_position(text));
  strategy.loaded(position.progress.optimizer_steps);
  return ok();
}

}  // namespace muster::train
