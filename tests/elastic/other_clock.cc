// Preloaded into a process, sets its clock on the wall $MUSTER_CLOCK_AHEAD seconds ahead, as on
// another host: no namespace of Linux does that. What measures durations stays.
#include <dlfcn.h>
#include <sys/time.h>

#include <cstdlib>
#include <ctime>

namespace {

time_t ahead() {
  const char* const seconds = std::getenv("MUSTER_CLOCK_AHEAD");
  return seconds == nullptr ? 0 : std::atol(seconds);
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  static const auto of_the_system =
      reinterpret_cast<decltype(&clock_gettime)>(::dlsym(RTLD_NEXT, "clock_gettime"));
  const int result = of_the_system(clock, now);
  const bool is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  if (result == 0 && is_wall) now->tv_sec += ahead();
  return result;
}

extern "C" int gettimeofday(timeval* now, void* /*zone*/) noexcept {
  timespec precise{};
  const int result = ::clock_gettime(CLOCK_REALTIME, &precise);
  *now = {precise.tv_sec, precise.tv_nsec / 1000};
  return result;
}

extern "C" time_t time(time_t* now) noexcept {
  timespec precise{};
  ::clock_gettime(CLOCK_REALTIME, &precise);
  if (now != nullptr) *now = precise.tv_sec;
  return precise.tv_sec;
}
