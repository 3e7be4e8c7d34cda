#include "muster/comm/backend/nccl/nccl_engine.h"

#include <fmt/format.h>

#include <condition_variable>
#include <cstring>

#include "muster/base/number.h"
#include "muster/comm/backend/nccl/host_copies.h"
#include "muster/comm/engine/errors.h"
#include "muster/comm/reduce.h"

namespace muster::comm {
namespace {

// Until what was sent has left, before a group goes. Its peers may wait for it.
constexpr Duration kFarewell = std::chrono::seconds(1);
// Until NCCL's kernels have ended after an abort.
constexpr Duration kAtTensors = std::chrono::seconds(1);

// What ranks send each other in a circle beside NCCL's collective: each learns so what the one
// before it calls, and all hear where two differ.
MessageId note_of(const Call& call) { return {static_cast<std::uint32_t>(call.sequence), 0}; }

// Waits in the same way, but hears of nothing: what has failed has failed.
void await_quietly(NcclGroup& nccl, Clock& clock, Duration longest) noexcept {
  const Deadline until = Deadline::after(clock, longest);
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  for (auto done = nccl.poll(); done && !*done && !until.passed(clock); done = nccl.poll())
    clock.wait_until(lock, never, clock.now() + std::chrono::milliseconds(1));
}

}  // namespace

NcclEngine::NcclEngine(Group group, std::unique_ptr<Transport> transport, const CostTable& costs,
                       std::unique_ptr<NcclGroup> nccl)
    : group_(group),
      costs_(costs),
      transport_(*transport),
      host_(create_schedule_engine(group, std::move(transport), costs)),
      nccl_(std::move(nccl)),
      messages_(*host_, *nccl_) {}

// NCCL may still be sending what this rank's part of a collective was.
NcclEngine::~NcclEngine() {
  const std::lock_guard use(use_);
  if (nccl_->is_aborted() || !nccl_->finish()) return;
  await_quietly(*nccl_, transport_.inbox().clock(), kFarewell);
}

void NcclEngine::drain() noexcept {
  host_->drain();
  const std::lock_guard use(use_);  // whoever runs a collective hears of the failure
  nccl_->abort();
  await_quietly(*nccl_, transport_.inbox().clock(), kAtTensors);
}

// ---- collectives

Status NcclEngine::run(const Call& call) {
  return is_ordered(call.op) ? run_on_host(call) : run_on_device(call);
}

Status NcclEngine::run_on_host(const Call& call) {
  Op op = call.op;
  HostCopies copies(op, *nccl_);
  MUSTER_TRY(copies.bring_in());
  MUSTER_TRY(host_->run({op, call.options, call.sequence, call.deadline}));
  return copies.bring_out();
}

Status NcclEngine::run_on_device(const Call& call) {
  const std::lock_guard use(use_);
  MUSTER_TRY(transport_.enter(call.sequence, signature_of(call.op, call.options)));
  NcclCall made = nccl_call_of(call.op, group_);
  Status outcome = pass(call, made);
  if (outcome || outcome.error().code != ErrorCode::kTimeout || !outcome.error().message.empty())
    return outcome;
  auto missing = transport_.missing(call.sequence);
  if (missing.empty()) missing.push_back(outcome.error().peer);
  return timeout_error(call.op, call.options, group_, missing);
}

Status NcclEngine::pass(const Call& call, NcclCall& made) {
  MUSTER_TRY(tell_next(call));
  if (!made.moves() && !std::holds_alternative<Barrier>(call.op)) return hear_previous(call);
  MUSTER_ASSIGN(std::byte* const output, place(made.output, NcclGroup::kOutput));
  std::byte* input = output;
  if (!made.in_place) {
    MUSTER_ASSIGN(input, place(made.input, NcclGroup::kInput));
  }
  if (made.reads && made.input.device == Device::kCpu)
    MUSTER_TRY(nccl_->copy(input, made.input.bytes.data(), made.input.bytes.size()));
  made.call.input = input;
  made.call.output = output;
  made.call.begin = made.shards.empty() ? nullptr : made.shards.data();
  MUSTER_TRY(nccl_->begin(made.call));
  MUSTER_TRY(await(*nccl_, {.transport = transport_,
                            .group = group_,
                            .deadline = call.deadline,
                            .in_collective = true}));
  MUSTER_TRY(hear_previous(call));
  return bring(made, output);
}

// Where NCCL has a tensor: where it is, or in memory of the device that stands in for it.
Result<std::byte*> NcclEngine::place(const TensorView& view, NcclGroup::Scratch scratch) {
  if (view.device == Device::kCuda) return view.bytes.data();
  return nccl_->scratch(scratch, view.bytes.size());
}

// What came out, from the device to the caller.
Status NcclEngine::bring(const NcclCall& made, const std::byte* from) const {
  const TensorView& to = made.output;
  if (to.device == Device::kCpu) {
    MUSTER_TRY(nccl_->copy(to.bytes.data(), from, to.bytes.size()));
    if (made.divides) divide(to.dtype, to.bytes.data(), to.count(), group_.size);
    return ok();
  }
  if (!made.divides) return ok();
  std::vector<std::byte> values(to.bytes.size());
  MUSTER_TRY(nccl_->copy(values.data(), from, values.size()));
  divide(to.dtype, values.data(), to.count(), group_.size);
  return nccl_->copy(to.bytes.data(), values.data(), values.size());
}

Rank NcclEngine::beside(std::int32_t step) const noexcept {
  return Rank{(to_int(group_.rank) + step + group_.size) % group_.size};
}

Status NcclEngine::tell_next(const Call& call) {
  return group_.size == 1 ? ok() : transport_.post(beside(1), note_of(call), {});
}

// It came long ago, as a rule: its sender was here before NCCL could end.
Status NcclEngine::hear_previous(const Call& call) {
  if (group_.size == 1) return ok();
  Status heard = transport_.inbox().take(beside(-1), note_of(call), {}, call.deadline);
  if (heard || heard.error().code != ErrorCode::kTimeout || transport_.inbox().failure())
    return heard;
  return muster::fail(ErrorCode::kTimeout, "", heard.error().peer);
}

// ---- memory and parts

Result<Buffer> NcclEngine::allocate(std::size_t bytes) {
  struct Block {
    NcclMemory memory;
    std::span<std::byte> span;
  };
  auto block = std::make_shared<Block>();
  MUSTER_ASSIGN(block->memory,
                NcclMemory::allocate(nccl_->table(), nccl_->device(), kMusterNcclPinned, bytes));
  block->span = block->memory.bytes();
  if (bytes > 0) std::memset(block->span.data(), 0, bytes);
  return Buffer(block, &block->span);
}

// NCCL counts colours from 0: each part is called by its first rank.
Result<std::unique_ptr<Engine>> NcclEngine::split(Group part, std::int32_t color,
                                                  const Exchange& exchange, Deadline deadline) {
  MUSTER_ASSIGN(auto transport, transport_.split(part, color, exchange, deadline));
  MUSTER_ASSIGN(const auto ranks, exchange(std::to_string(to_int(group_.rank)), deadline));
  const auto first = number_from<std::int32_t>(ranks.front());
  if (!first || *first < 0 || *first >= group_.size)
    return muster::fail(ErrorCode::kCorrupt,
                        fmt::format("[comm/nccl] a rank says that it is rank `{}`", ranks.front()));
  std::unique_ptr<NcclGroup> nccl;
  {
    const std::lock_guard use(use_);
    MUSTER_ASSIGN(nccl, nccl_->split(*first, to_int(part.rank)));
    const Status joined =
        await(*nccl, {.transport = *transport, .group = part, .deadline = deadline, .ends = [this] {
                        auto why = transport_.inbox().failure();
                        if (why) why->peer = kNoRank;  // a rank of the whole, not of the part
                        return why;
                      }});
    if (!joined && joined.error().message.empty())
      return muster::fail(ErrorCode::kTimeout, "[comm/nccl] NCCL did not split the group in time");
    MUSTER_TRY(joined);
  }
  return std::make_unique<NcclEngine>(part, std::move(transport), costs_, std::move(nccl));
}

}  // namespace muster::comm
