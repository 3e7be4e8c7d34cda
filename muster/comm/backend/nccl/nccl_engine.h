#pragma once
// The Engine of `nccl`: see nccl.h.

#include <memory>
#include <mutex>

#include "muster/comm/backend/nccl/nccl_call.h"
#include "muster/comm/backend/nccl/nccl_group.h"
#include "muster/comm/backend/nccl/nccl_messages.h"
#include "muster/comm/backend/nccl/nccl_wait.h"
#include "muster/comm/engine/transport.h"

namespace muster::comm {

class NcclEngine final : public Engine {
 public:
  // `nccl`: of the same ranks as `transport`; ready.
  NcclEngine(Group group, std::unique_ptr<Transport> transport, const CostTable& costs,
             std::unique_ptr<NcclGroup> nccl);
  ~NcclEngine() override;

  Status run(const Call& call) override;

  Result<bool> try_send(const Send& send, Deadline deadline) override {
    return messages_.try_send(send, deadline);
  }
  Result<bool> try_recv(const Recv& recv) override { return messages_.try_recv(recv); }
  bool has_part(const Recv& recv) const override { return host_->has_part(recv); }
  std::uint32_t activity() const noexcept override { return host_->activity(); }
  void await_activity(std::uint32_t seen, TimePoint until) override {
    host_->await_activity(seen, until);
  }
  void wake() noexcept override { host_->wake(); }

  void fail(const Error& why) noexcept override { host_->fail(why); }
  void stop(const Error& why) noexcept override { host_->stop(why); }
  void drain() noexcept override;

  Result<Buffer> allocate(std::size_t bytes) override;
  Result<std::unique_ptr<Engine>> split(Group part, std::int32_t color, const Exchange& exchange,
                                        Deadline deadline) override;

 private:
  Status run_on_device(const Call& call);
  Status run_on_host(const Call& call);
  Status pass(const Call& call, NcclCall& made);
  Result<std::byte*> place(const TensorView& view, NcclGroup::Scratch scratch);
  Status bring(const NcclCall& made, const std::byte* from) const;
  Status tell_next(const Call& call);
  Status hear_previous(const Call& call);
  Rank beside(std::int32_t step) const noexcept;

  const Group group_;
  const CostTable costs_;
  Transport& transport_;  // host_'s
  // Schedules over it: ordered sums and messages, in the host's memory.
  const std::unique_ptr<Engine> host_;
  std::mutex use_;
  const std::unique_ptr<NcclGroup> nccl_;  // guarded by use_, but for what copies
  NcclMessages messages_;                  // their thread only
};

}  // namespace muster::comm
