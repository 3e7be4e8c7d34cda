// How ranks meet before they can talk: over the job's key-value store.

#include <fmt/format.h>

#include "muster/cluster/store.h"
#include "muster/comm/backend/native/native.h"

namespace muster::comm {
namespace {

// Only who is waited for in vain is to blame: a store that is gone, or a generation that has ended,
// says nothing of that rank.
Error why_missing(Error why, Rank rank, const Group& group) {
  const bool late = why.code == ErrorCode::kTimeout;
  if (late) why.peer = rank;
  return with_context(std::move(why), fmt::format("[comm/join] rank {} of generation {} {}",
                                                  to_int(rank), to_int(group.generation),
                                                  late ? "did not come" : "cannot be asked for"));
}

}  // namespace

Exchange exchange_through(cluster::KvStore& store, Group group, std::string prefix) {
  return
      [&store, group, prefix = std::move(prefix), round = 0](
          const std::string& mine, Deadline deadline) mutable -> Result<std::vector<std::string>> {
        const std::string folder = fmt::format("{}/{}", prefix, round++);
        const auto key = [&](std::int32_t rank) { return fmt::format("{}/{}", folder, rank); };
        MUSTER_TRY(store.set(key(to_int(group.rank)), cluster::to_bytes(mine), deadline));
        std::vector<std::string> all;
        for (std::int32_t rank = 0; rank < group.size; ++rank) {
          auto value = store.get(key(rank), deadline);
          if (!value) return why_missing(std::move(value).error(), Rank{rank}, group);
          all.push_back(cluster::to_string(*value));
        }
        return all;
      };
}

}  // namespace muster::comm
