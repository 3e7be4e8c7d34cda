#include "muster/base/pause.h"

namespace muster {

void pause(Clock& clock, Duration duration) {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  const TimePoint until = clock.now() + duration;
  while (clock.wait_until(lock, never, until)) {
  }
}

}  // namespace muster
