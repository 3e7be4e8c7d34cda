#pragma once
// How many workers there should be, as rules without clock or processes: what a launcher asks every
// now and then. One thread.

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace muster::cluster {

struct ScaleView {
  std::int32_t workers = 0;  // that train
  double rate = 0;           // steps a second since the last question
  bool steady = false;       // the same workers trained all the time since then
  std::int32_t least = 1;    // what the job allows
  std::int32_t most = 1;
};

struct ScaleWish {
  std::int32_t workers = 0;  // brought within what the job allows
  std::string reason;        // for a person: "a third worker adds 12 %"
};

using ScaleRule = std::function<ScaleWish(const ScaleView&)>;

// One worker more for as long as the last one adds at least `min_gain` of what the others give on
// average; else back again, and after `again` questions a new try, for conditions change.
class ThroughputRule {
 public:
  explicit ThroughputRule(double min_gain, int again = 20);
  ScaleWish operator()(const ScaleView& view);

 private:
  double min_gain_;
  int again_;
  int questions_ = 0;
  std::map<std::int32_t, double> rates_;  // by number of workers
  std::map<std::int32_t, int> given_up_;  // numbers that did not pay, and when
};

}  // namespace muster::cluster
