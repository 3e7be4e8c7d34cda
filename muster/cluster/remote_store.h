#pragma once
// The coordinator's store, as a worker sees it over its control connection.

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>

#include "muster/cluster/messages.h"
#include "muster/cluster/store.h"

namespace muster::cluster {

// Thread-safe. Not to be asked on the loop's thread, which brings the answers.
class RemoteStore : public KvStore {
 public:
  using Send = std::function<void(const StoreRequest&)>;
  RemoteStore(Clock& clock, Send send) : clock_(clock), send_(std::move(send)) {}

  Status set(const std::string& key, Bytes value, Deadline deadline) override;
  Result<Bytes> get(const std::string& key, Deadline deadline) override;
  Result<std::int64_t> add(const std::string& key, std::int64_t delta, Deadline deadline) override;
  Result<Bytes> compare_exchange(const std::string& key, Bytes expected, Bytes desired,
                                 Deadline deadline) override;

  void on_reply(const StoreReply& reply);
  void end(const Error& why);  // all that wait, and all that come, end with `why`

 private:
  Result<StoreReply> ask(StoreRequest request, Deadline deadline);

  Clock& clock_;
  Send send_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t last_id_ = 0;
  std::map<std::uint64_t, std::optional<StoreReply>> open_;
  std::optional<Error> ended_;
};

}  // namespace muster::cluster
