#pragma once
// What the signals that ask a process to stop mean, one after another. One thread.

#include <chrono>
#include <cstdint>
#include <optional>

#include "muster/base/clock.h"

namespace muster::cluster {

class StopWishes {
 public:
  enum class Wish : std::uint8_t {
    kStop,    // the first
    kEcho,    // the one before once more: timeout(1) and shells that end signal a process and then
              // its whole group, and nobody has lost patience
    kAtOnce,  // a person insists
  };
  static constexpr Duration kEchoes = std::chrono::milliseconds(150);

  Wish hear(int signal, TimePoint now) {
    const bool first = !last_;
    const bool echo = last_ && last_->signal == signal && now - last_->at < kEchoes;
    if (!echo) last_ = Heard{signal, now};
    return first ? Wish::kStop : echo ? Wish::kEcho : Wish::kAtOnce;
  }

 private:
  struct Heard {
    int signal;
    TimePoint at;
  };
  std::optional<Heard> last_;  // that was no echo
};

}  // namespace muster::cluster
