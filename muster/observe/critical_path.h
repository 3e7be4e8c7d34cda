#pragma once
// The critical path of a training: the chain of work and waiting that its steps' time came from. It
// is followed back from a step's end: an operation of all ranks is held up by the last one to
// submit it, and the path goes on there. (Hollingsworth, "An online computation of critical path
// profiling", 1996.)

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/clock.h"
#include "muster/observe/event.h"
#include "muster/observe/span.h"

namespace muster::observe {

// One thread at a time.
class CriticalPath {
 public:
  // Who trains from here on. Of what other generations began nothing counts any more, and a step
  // only once all of this one have told of it whole.
  void enter(Generation generation, std::size_t workers);
  void go_back(Step to);  // the steps after it are taken again, and count again
  void add(const Span& span);
  PathSummary summary() const;  // the greatest share first

 private:
  Generation generation_{0};
  std::size_t workers_ = 1;
  Step last_{0};  // that was counted
  std::map<Step, std::vector<Span>> open_;
  std::map<std::pair<std::string, std::int32_t>, Duration> shares_;  // by what and worker
  std::int64_t steps_ = 0;
};

// "62 % backward on worker 1, 20 % forward on worker 1, 9 % all_reduce, 9 % other"
std::string describe(const PathSummary& path);

}  // namespace muster::observe
