#include "muster/cluster/shared_values.h"

namespace muster::cluster {

std::vector<SharedValues::Answer> SharedValues::set(const std::string& key, const Bytes& value) {
  values_[key] = value;
  std::vector<Answer> answers;
  const auto waiting = waiting_.extract(key);
  if (waiting.empty()) return answers;
  for (const auto& get : waiting.mapped()) answers.push_back({get.peer, {get.id, value, 0}});
  return answers;
}

std::vector<SharedValues::Answer> SharedValues::ask(PeerId peer, const StoreRequest& request) {
  const auto found = values_.find(request.key);
  const bool exists = found != values_.end();
  std::vector<Answer> answers;
  StoreReply reply{request.id, {}, 0};
  switch (request.action) {
    case StoreAction::kSet:
      answers = set(request.key, request.value);
      break;
    case StoreAction::kGet:
      if (!exists) {
        waiting_[request.key].push_back({peer, request.id});
        return answers;
      }
      reply.value = found->second;
      break;
    case StoreAction::kAdd:
      reply.number = counters_[request.key] += request.delta;
      break;
    case StoreAction::kCompareExchange: {
      const bool matches = exists ? found->second == request.expected : request.expected.empty();
      if (matches) answers = set(request.key, request.value);
      if (matches || exists) reply.value = values_.at(request.key);
      break;
    }
  }
  answers.push_back({peer, std::move(reply)});
  return answers;
}

void SharedValues::forget(PeerId peer) {
  for (auto& [key, waiting] : waiting_)
    std::erase_if(waiting, [peer](const Waiting& get) { return get.peer == peer; });
}

}  // namespace muster::cluster
