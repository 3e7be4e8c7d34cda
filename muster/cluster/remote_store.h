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

// Thread-safe. Not to be asked on the loop's thread, which brings the answers. Owned by shared
// pointers: the views keep it.
class RemoteStore : public std::enable_shared_from_this<RemoteStore> {
 public:
  using Send = std::function<void(const StoreRequest&)>;
  RemoteStore(Clock& clock, Send send) : clock_(clock), send_(std::move(send)) {}

  // The store for as long as `generation` is the newest: then whatever is asked, and whoever waits,
  // ends with kStale.
  std::shared_ptr<KvStore> of(Generation generation);

  Result<StoreReply> ask(StoreRequest request, Generation generation, Deadline deadline);

  void on_reply(const StoreReply& reply);
  void on_generation(Generation newest);
  void end(const Error& why);  // all that wait, and all that come, end with `why`

 private:
  std::optional<Error> obstacle(Generation generation) const;

  Clock& clock_;
  Send send_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t last_id_ = 0;
  std::map<std::uint64_t, std::optional<StoreReply>> open_;
  Generation newest_{0};
  std::optional<Error> ended_;
};

}  // namespace muster::cluster
