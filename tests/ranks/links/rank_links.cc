// Ranks in network namespaces of their own run operations over the links between these.
// Usage: muster_rank_links check ROUNDS PLACE… | lose OPERATION PLACE…
// PLACE: "<pid>:<address>", a process in the rank's namespace and what the others reach it at.
// check: every operation ROUNDS times, verified; exit status 0. lose: one of them over and over
// until it fails; "rank <r> begun" after the first round, then "rank <r> <code> <peer> <text>".

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/ranks/processes/rank_network.h"
#include "tests/ranks/processes/rank_processes.h"
#include "tests/ranks/processes/rounds.h"

namespace muster::comm {
namespace {

constexpr Duration kOfLossyLinks = std::chrono::seconds(60);
constexpr Duration kUntilCut = std::chrono::seconds(5);

struct Place {
  std::string process;
  std::string address;
};

struct Task {
  std::string_view mode;
  std::string_view argument;
  std::vector<Place> places;
};

int complain(const Group& group, int status, std::string_view what) {
  fmt::print(stderr, "rank {}: {}\n", to_int(group.rank), what);
  return status;
}

bool enter(const std::string& process) {
  const std::string path = "/proc/" + process + "/ns/net";
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool entered = descriptor >= 0 && ::setns(descriptor, CLONE_NEWNET) == 0;
  ::close(descriptor);
  return entered;
}

Status play(Communicator& world, const Round& round, Duration timeout) {
  OpOptions options;
  options.timeout = timeout;
  std::vector<Work> works;
  for (Op& op : round.ops()) works.push_back(world.submit(std::move(op), options));
  return wait_for_all(works);
}

int check(Communicator& world, int rounds) {
  std::vector<float> memory(6000);
  for (int i = 0; i < rounds; ++i)
    for (const Operation operation : kEveryOperation) {
      Round round(operation, world.group(), Rank{i % world.group().size}, memory);
      round.fill();
      const Status status = play(world, round, kOfLossyLinks);
      if (!status) return complain(world.group(), 20, status.error().message);
      if (!round.is_right())
        return complain(world.group(), 21, fmt::format("wrong values of {}", name(operation)));
    }
  return 0;
}

int lose(Communicator& world, std::string_view wanted, const Exchange& exchange) {
  const auto* const operation =
      std::ranges::find_if(kEveryOperation, [&](Operation known) { return name(known) == wanted; });
  if (operation == std::end(kEveryOperation)) return 64;
  std::vector<float> memory(std::size_t{1} << 14);
  const Rank last{world.group().size - 1};
  Round round(*operation, world.group(), last, memory);
  round.fill();
  Status status = play(world, round, kOfLossyLinks);
  if (status) fmt::print("rank {} begun\n", to_int(world.group().rank));
  std::fflush(stdout);
  while (status) status = play(world, round, kUntilCut);
  fmt::print("rank {} {} {} {}\n", to_int(world.group().rank), to_string(status.error().code),
             to_int(status.error().peer), status.error().message);
  std::fflush(stdout);
  // What it tells the others of its end would be lost with its process.
  static_cast<void>(exchange("", Deadline::after(system_clock(), kOfLossyLinks)));
  return 0;
}

int run(Group group, const Exchange& exchange, const Task& task,
        const net::Credentials& credentials) {
  const Place& place = task.places[static_cast<std::size_t>(to_int(group.rank))];
  if (!enter(place.process)) return complain(group, 10, "its namespace is closed to it");
  RankNetwork network(credentials, place.address);
  const auto world = network.join(group, exchange, NativeTransport::kTcp);
  if (!world) return complain(group, 11, world.error().message);
  if (task.mode == "lose") return lose(**world, task.argument, exchange);
  const int status = check(**world, std::atoi(std::string(task.argument).c_str()));
  static_cast<void>(exchange("", Deadline::after(system_clock(), kOfLossyLinks)));
  return status;
}

}  // namespace
}  // namespace muster::comm

int main(int count, char** words) {
  const std::span given(words, static_cast<std::size_t>(count));
  if (given.size() < 4) return 64;
  muster::comm::Task task{given[1], given[2], {}};
  for (const std::string_view word : given.subspan(3)) {
    const auto colon = word.find(':');
    if (colon == std::string_view::npos) return 64;
    task.places.push_back(
        {std::string(word.substr(0, colon)), std::string(word.substr(colon + 1))});
  }
  const auto credentials = muster::net::create_credentials(muster::system_clock().wall());
  if (!credentials) return 4;
  const auto size = static_cast<std::int32_t>(task.places.size());
  muster::comm::RankProcesses ranks(size, [&](auto group, const auto& exchange) {
    return muster::comm::run(group, exchange, task, *credentials);
  });
  int worst = 0;
  for (std::int32_t rank = 0; rank < size; ++rank) worst = std::max(worst, ranks.wait(rank));
  return worst;
}
