#pragma once
// What the coordinator keeps for the job's key-value store (KvStore). A pure state machine; one
// thread.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "muster/cluster/messages.h"

namespace muster::cluster {

using PeerId = std::uint64_t;  // one control connection; never reused

class SharedValues {
 public:
  struct Answer {
    PeerId to;
    StoreReply reply;
  };

  // In order. A get of a key that is not there yet is answered when somebody sets it.
  std::vector<Answer> ask(PeerId peer, const StoreRequest& request);
  void forget(PeerId peer);  // it waits for nothing any more

 private:
  struct Waiting {  // a get of a key that is not there yet
    PeerId peer;
    std::uint64_t id;
  };

  std::vector<Answer> set(const std::string& key, const Bytes& value);

  std::map<std::string, Bytes> values_;
  std::map<std::string, std::int64_t> counters_;
  std::map<std::string, std::vector<Waiting>> waiting_;
};

}  // namespace muster::cluster
