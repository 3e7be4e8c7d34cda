#include "muster/comm/backend/nccl/nccl_messages.h"

namespace muster::comm {

Result<bool> NcclMessages::try_send(const Send& send, Deadline deadline) {
  if (send.tensor.device == Device::kCpu) return host_.try_send(send, deadline);
  std::vector<std::byte> bytes(send.tensor.bytes.size());
  MUSTER_TRY(nccl_.copy(bytes.data(), send.tensor.bytes.data(), bytes.size()));
  Send staged = send;
  staged.tensor.bytes = bytes;
  staged.tensor.device = Device::kCpu;
  return host_.try_send(staged, deadline);
}

// A large one comes in pieces, over several calls.
Result<bool> NcclMessages::try_recv(const Recv& recv) {
  if (recv.tensor.device == Device::kCpu) return host_.try_recv(recv);
  const std::pair key(recv.from, recv.tag);
  std::vector<std::byte>& bytes = coming_[key];
  bytes.resize(recv.tensor.bytes.size());
  Recv staged = recv;
  staged.tensor.bytes = bytes;
  staged.tensor.device = Device::kCpu;
  MUSTER_ASSIGN(const bool taken, host_.try_recv(staged));
  if (!taken) return false;
  const Status copied = nccl_.copy(recv.tensor.bytes.data(), bytes.data(), bytes.size());
  coming_.erase(key);
  if (!copied) return copied.error();
  return true;
}

}  // namespace muster::comm
