#include "muster/cli/doctor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "muster/app/engines/fabric.h"
#include "muster/app/engines/mpi.h"
#include "muster/app/engines/nccl.h"
#include "muster/app/version/version.h"
#include "muster/base/units.h"
#include "muster/cli/fetch_libtorch.h"
#include "muster/cli/machine.h"
#include "muster/comm/communicator.h"

namespace muster::cli {
namespace {

constexpr std::uint64_t kLittle = 1ull << 30;  // memory, disk: below this it gets tight
// That a worker's shared memory is sized for: its heap, and before it how the ranks meet.
constexpr std::uint64_t kRoom = comm::kHeapBytes + (1ull << 30);
constexpr std::uint64_t kFewFiles = 1024;         // a socket and a pipe or two a worker
constexpr std::chrono::seconds kWorkerStart{30};  // libtorch from a cold disk
constexpr std::string_view kExampleData = "/usr/share/datasets/fashion-mnist";
constexpr std::chrono::hours kEarliest{24 * 365 * 55};  // before 2025 no muster was built

Check check_status(std::string name, const Status& status, std::string value, std::string fix) {
  if (status) return {std::move(name), CheckState::kOk, std::move(value), {}};
  return {std::move(name), CheckState::kBad, status.error().message, std::move(fix)};
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

Check check_muster(Context&) {
  return {
      "muster", CheckState::kOk, fmt::format("{}, compiler {}", app::version(), __VERSION__), {}};
}

Check check_worker(Context& context) {
  const auto worker = worker_path(context);
  if (!context.files.exists(worker)) {
    return {
        "libtorch", CheckState::kBad, fmt::format("no {}", worker.string()),
        "build it: script/quickstart, or cmake --preset release && cmake --build --preset release"};
  }
  const auto answer = context.machine.output_of({worker.string(), "--version"}, kWorkerStart);
  const auto fetcher = libtorch_fetcher(context);
  const auto fetched = fetcher ? fetched_libtorch(*fetcher, context) : FetchedLibtorch::kNone;
  const std::string fetch = "`muster doctor --fix`, as root, fetches libtorch (554 MB)";
  if (answer && fetched == FetchedLibtorch::kOther)
    return {"libtorch", CheckState::kWarning, first_line(*answer) + ", fetched for another muster",
            fetch};
  if (answer) return {"libtorch", CheckState::kOk, first_line(*answer), {}};
  std::string fix = "run it by hand to see why; script/dependencies installs libtorch again";
  if (fetcher)
    fix = fetched == FetchedLibtorch::kThis
              ? fmt::format("run it by hand to see why; without {}, {}", fetcher->folder.string(),
                            fetch)
              : fetch;
  return {"libtorch", CheckState::kBad,
          fmt::format("{} --version: {}", worker.string(), answer.error().message), std::move(fix)};
}

Check check_cores(Context& context) {
  const double cores = context.machine.cores();
  const auto value = fmt::format("{} on {}", cores, context.machine.host());
  if (cores >= 2) return {"cores", CheckState::kOk, value, {}};
  return {"cores", CheckState::kWarning, value,
          "more cores train faster; several workers share one"};
}

Check check_memory(Context& context) {
  const auto [total, available] = context.machine.memory();
  const auto value =
      fmt::format("{} of {} available", format_bytes(available), format_bytes(total));
  if (available >= kLittle) return {"memory", CheckState::kOk, value, {}};
  return {"memory", CheckState::kWarning, value,
          "end other programs, or use fewer workers: each needs about 300 MiB"};
}

Check check_instructions(Context& context) {
  const auto sets = context.machine.instruction_sets();
  const auto value =
      sets.empty() ? "none beyond the basic ones" : fmt::format("{}", fmt::join(sets, " "));
  if (std::find(sets.begin(), sets.end(), "avx2") != sets.end()) {
    return {"instruction sets", CheckState::kOk, value, {}};
  }
  return {"instruction sets", CheckState::kWarning, value,
          "kernels are several times faster with avx2"};
}

// Loaded to be asked, which takes a second where there are GPUs.
std::string nccl_text(const Context& context) {
  const auto module = nccl_module(context);
  if (!module) return "no module";
  const auto found = app::describe_nccl(*module);
  return found ? *found
               : fmt::format("a module that cannot be used here ({})", found.error().message);
}

Check check_engines(Context& context) {
  std::vector<std::string> good;
  for (const auto& [name, outcome] : context.machine.try_engines()) {
    if (!outcome)
      return {
          "engines", CheckState::kBad, fmt::format("{}: {}", name, outcome.error().message),
          "two ranks could not sum numbers; mend what the other lines call bad, else report it"};
    good.push_back(name);
  }
  const auto mpis = app::mpi_modules(context.files, context.program.parent_path());
  return {"engines",
          CheckState::kOk,
          fmt::format("{}: two ranks of each summed; over MPI: {}; NCCL: {}", fmt::join(good, ", "),
                      mpis.empty() ? "no module" : fmt::format("{}", fmt::join(mpis, ", ")),
                      nccl_text(context)),
          {}};
}

Check check_fabric(Context& context) {
  std::vector<std::string> up, down;
  for (const app::FabricPort& port : app::fabric_ports(context.files)) {
    if (port.is_active())
      up.push_back(describe(port));
    else
      down.push_back(fmt::format("{} {} is {}", port.fabric, port.name, port.state));
  }
  if (!up.empty()) return {"fabric", CheckState::kOk, fmt::format("{}", fmt::join(up, ", ")), {}};
  if (down.empty()) return {"fabric", CheckState::kOk, "none; TCP reaches other hosts", {}};
  return {"fabric", CheckState::kWarning, fmt::format("{}", fmt::join(down, ", ")),
          "for communication.engine mpi bring it up; ibstat and rdma link say what it lacks"};
}

Check check_port(Context& context) {
  return check_status("loopback port", context.machine.bind_loopback(), "127.0.0.1 can be bound",
                      "workers meet there: bring up the loopback interface (ip link set lo up)");
}

Check check_addresses(Context& context) {
  const auto found = context.machine.addresses();
  if (found.empty())
    return {"addresses", CheckState::kWarning, "none by which another host reaches this one",
            "one host can train so; for several bring up a network (ip address)"};
  std::string value;
  for (const auto& [text, interface] : found)
    value += fmt::format("{}{} ({})", value.empty() ? "" : ", ", text, interface);
  return {"addresses", CheckState::kOk, value, {}};
}

Check check_asked_port(Context& context, std::uint16_t port) {
  return check_status(
      fmt::format("port {}", port), context.machine.bind_everywhere(port), "free on all interfaces",
      fmt::format("take another one, the same on all hosts; who has it: ss -ltnp 'sport = :{}'",
                  port));
}

Check check_shared_memory(Context& context) {
  return check_status("shared memory", context.machine.create_shared_memory(), "memfd works",
                      "raise the memory limit, or set communication.transport: tcp");
}

Check check_files(Context& context) {
  const auto limit = context.machine.open_file_limit();
  if (limit >= kFewFiles) return {"open files", CheckState::kOk, fmt::format("{}", limit), {}};
  return {"open files", CheckState::kWarning, fmt::format("{}", limit),
          "raise the limit where many workers start: ulimit -n 4096"};
}

Check check_file_size(Context& context) {
  const auto limit = context.machine.file_size_limit();
  const auto value = limit ? format_bytes(*limit) : "unlimited";
  if (!limit || *limit >= kRoom) return {"file size", CheckState::kOk, value, {}};
  return {"file size", CheckState::kWarning, value,
          "lift the limit (ulimit -f unlimited): checkpoints may be larger, and workers can share "
          "no memory; without, set communication.transport: tcp"};
}

Check check_clock(Context& context) {
  const auto now = context.clock.wall();
  const auto value = format_utc(now);
  if (now.time_since_epoch() < kEarliest) {
    return {"clock", CheckState::kBad, value,
            "set the date: runs are called by it, and the newest is found by that"};
  }
  if (context.machine.clock_is_synchronised().value_or(true)) {
    return {"clock", CheckState::kOk, value, {}};
  }
  return {"clock", CheckState::kWarning, value + ", not synchronised",
          "run an NTP client, so that times in runs and logs of several hosts agree"};
}

Check check_disk(Context& context) {
  const Path here = ".";
  if (const auto status = context.machine.write_in(here); !status) {
    return {"disk", CheckState::kBad, "the current folder: " + status.error().message,
            "run muster in a folder you may write in, or set run_folder"};
  }
  const auto space = context.machine.free_space(here);
  if (!space) return {"disk", CheckState::kWarning, space.error().message, {}};
  const auto value = fmt::format("{} free in the current folder", format_bytes(*space));
  if (*space >= kLittle) return {"disk", CheckState::kOk, value, {}};
  return {"disk", CheckState::kWarning, value, "checkpoints need room: remove old runs"};
}

Check check_data(Context& context) {
  if (context.files.exists(Path(kExampleData))) {
    return {"example data", CheckState::kOk, std::string(kExampleData), {}};
  }
  return {"example data", CheckState::kWarning, fmt::format("no {}", kExampleData),
          "for jobs/fashion.yaml: apt-get install dataset-fashion-mnist"};
}

}  // namespace

std::vector<Check> examine(Context& context, std::optional<std::uint16_t> port) {
  std::vector<Check> checks;
  for (auto* check :
       {&check_muster, &check_worker, &check_cores, &check_memory, &check_instructions,
        &check_engines, &check_fabric, &check_port, &check_addresses, &check_shared_memory,
        &check_files, &check_file_size, &check_clock, &check_disk, &check_data}) {
    checks.push_back(check(context));
  }
  if (port) checks.push_back(check_asked_port(context, *port));
  return checks;
}

}  // namespace muster::cli
