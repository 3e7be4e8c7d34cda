#include "muster/cluster/memory_kills.h"

#include <fmt/format.h>

#include <charconv>
#include <csignal>
#include <string_view>

namespace muster::cluster {

std::uint64_t memory_kills(Files& files) {
  constexpr std::string_view kName = "\noom_kill ";
  const auto text = files.read("/proc/vmstat");
  const std::string counters = "\n" + text.value_or("");
  const std::size_t at = counters.find(kName);
  std::uint64_t count = 0;
  if (at != counters.npos)
    std::from_chars(counters.data() + at + kName.size(), counters.data() + counters.size(), count);
  return count;
}

std::string describe(const ProcessEnd& end, std::uint64_t kills) {
  if (end.signal != SIGKILL || kills == 0) return muster::describe(end);
  return fmt::format(
      "{}, as the system does for lack of memory: it has killed {} process{} for it since the job "
      "began",
      muster::describe(end), kills, kills == 1 ? "" : "es");
}

}  // namespace muster::cluster
