#include "muster/app/launch/hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "muster/app/join/orders.h"
#include "muster/base/shell_words.h"
#include "muster/cluster/process_group.h"

namespace muster::app {
namespace {

constexpr Duration kLookAtMost = std::chrono::seconds(60);
constexpr int kOfTheShell = 255;  // see RemoteShell
// Before what is meant for the launcher: what the shell there runs as it starts may write as well.
constexpr std::string_view kHostMark = "muster-host ";

// Into $m: the same path as here, as on a shared file system or where hosts are alike, else as the
// PATH there has it.
std::string find_program(const CarriedAlong& carried, std::string_view or_else) {
  return fmt::format("m={}; [ -x \"$m\" ] || m=$(command -v {}) || {}; ",
                     shell_quoted(carried.program.string()),
                     shell_quoted(carried.program.filename().string()), or_else);
}

std::string look_script(const CarriedAlong& carried) {
  return find_program(carried, "{ echo 'muster-host no program'; exit 0; }") +
         fmt::format(
             "cd {} || {{ echo 'muster-host no folder'; exit 0; }}; "
             "echo \"muster-host sees $SSH_CONNECTION\"; "
             "echo \"muster-host runs $(\"$m\" --version 2>&1 | head -n 1)\"",
             shell_quoted(carried.folder.string()));
}

std::string start_script(const CarriedAlong& carried) {
  return find_program(carried, "exit 3") + fmt::format("cd {} && exec \"$m\" worker --from-input",
                                                       shell_quoted(carried.folder.string()));
}

// What one host has answered.
class HostAnswer final {
 public:
  void hear(std::string_view line) {
    if (!line.starts_with(kHostMark)) return;
    line.remove_prefix(kHostMark.size());
    for (const auto& [word, into] :
         {std::pair("no ", &lacks_), std::pair("sees ", &sees_), std::pair("runs ", &runs_)})
      if (line.starts_with(word)) *into = line.substr(std::string_view(word).size());
  }
  // Of this host.
  std::string address() const { return sees_.substr(0, sees_.find(' ')); }

  // Why it cannot take part; empty: it can.
  std::string why_not(const std::string& host, const cluster::ProcessGroupEnd::Member& member,
                      const cluster::RemoteShell& shell, const CarriedAlong& carried) const {
    if (member.end.exit_status == kOfTheShell) return shell.explain(host, member.last_lines);
    if (lacks_ == "program")
      return fmt::format(
          "there is no {} there, and no {} on the PATH of its commands; install the "
          "same version, and see `{} {} 'echo $PATH'`",
          carried.program.string(), carried.program.filename().string(), shell.name(), host);
    if (lacks_ == "folder")
      return fmt::format(
          "there is no folder {} there, in which paths of the job begin; put it on a "
          "shared file system, or make it there with what the job reads",
          carried.folder.string());
    if (runs_ == carried.version) return "";
    if (!runs_.empty())
      return fmt::format("it has another version, and all need the same: `{}` there, `{}` here",
                         runs_, carried.version);
    if (member.end.signal)
      return fmt::format("it has not answered within {} s",
                         std::chrono::duration_cast<std::chrono::seconds>(kLookAtMost).count());
    std::string told = "its answer makes no sense (" + muster::describe(member.end) + ")";
    for (const std::string& line : member.last_lines) told += "\n    " + line;
    return told;
  }

 private:
  std::string lacks_, sees_, runs_;
};

class HostAnswers final : public cluster::ProcessGroupObserver {
 public:
  explicit HostAnswers(std::size_t hosts) : all(hosts) {}
  void on_line(std::size_t process, bool is_error, std::string_view line) override {
    if (!is_error) all[process].hear(line);
  }
  std::vector<HostAnswer> all;
};

// What they have answered, by host, each once.
class HostsSeen {
 public:
  HostsSeen(const std::vector<std::string>& hosts, const HostAnswers& answers,
            const std::vector<cluster::ProcessGroupEnd::Member>& ends,
            const cluster::RemoteShell& shell, const CarriedAlong& carried) {
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      std::string why = answers.all[i].why_not(hosts[i], ends[i], shell, carried);
      if (why.empty()) {
        addresses_.emplace_back(hosts[i], answers.all[i].address());
      } else {
        absent_.emplace_back(hosts[i], std::move(why));
      }
    }
  }

  bool nobody_is_there() const { return addresses_.empty(); }
  bool is_absent(const std::string& host) const {
    return std::ranges::any_of(absent_, [&](const auto& each) { return each.first == host; });
  }

  // "1 of 3 other hosts cannot take part: …"; empty: all can.
  std::string describe_absent(std::string_view what) const {
    if (absent_.empty()) return "";
    const std::size_t hosts = absent_.size() + addresses_.size();
    std::string told = fmt::format("[train] {} of {} other host{} {}", absent_.size(), hosts,
                                   hosts == 1 ? "" : "s", what);
    for (const auto& [host, why] : absent_) told += fmt::format("\n  {}: {}", host, why);
    return told;
  }

  // One that all name the same.
  Result<std::string> agreed_address() const {
    const std::string& first = addresses_.front().second;
    std::string told;
    bool is_same = !first.empty();
    for (const auto& [host, address] : addresses_) {
      is_same = is_same && address == first;
      told += fmt::format("\n  {} sees it as {}", host, address);
    }
    if (is_same) return first;
    return fail(ErrorCode::kUnavailable,
                "[train] other hosts see this one under several addresses, and workers "
                "need one; say it as workers.listen, for example "
                "`--set workers.listen=10.0.0.5:0`" +
                    told);
  }

 private:
  std::vector<std::pair<std::string, std::string>> addresses_;  // of this host, as each sees it
  std::vector<std::pair<std::string, std::string>> absent_;     // and why
};

std::vector<std::string> each_once(const OtherHosts& hosts) {
  std::set<std::string> all(hosts.needed.begin(), hosts.needed.end());
  all.insert(hosts.later.begin(), hosts.later.end());
  return {all.begin(), all.end()};
}

bool is_this_host(const std::string& name, std::string_view this_host) {
  return name == "localhost" || name == "127.0.0.1" || name == "::1" || name == this_host ||
         name == this_host.substr(0, this_host.find('.'));
}

}  // namespace

Placement place_workers(const std::vector<job::HostSlots>& hosts, std::int64_t workers,
                        std::string_view this_host) {
  if (hosts.empty()) return {.here = workers, .elsewhere = {}};
  Placement placement;
  for (std::string& host : job::first_slots(hosts, workers)) {
    if (is_this_host(host, this_host)) {
      ++placement.here;
    } else {
      placement.elsewhere.push_back(std::move(host));
    }
  }
  return placement;
}

std::vector<std::string> spare_hosts(const std::vector<job::HostSlots>& hosts, std::int64_t workers,
                                     std::string_view this_host) {
  std::vector<std::string> spares =
      job::first_slots(hosts, std::numeric_limits<std::int64_t>::max());
  spares.erase(spares.begin(), spares.begin() + std::min(workers, std::ssize(spares)));
  std::erase_if(spares, [&](const std::string& host) { return is_this_host(host, this_host); });
  return spares;
}

Placement first_of(const Placement& places, std::int64_t workers) {
  Placement first{.here = std::min(places.here, workers), .elsewhere = {}};
  const auto more = std::min(workers - first.here, std::ssize(places.elsewhere));
  first.elsewhere.assign(places.elsewhere.begin(), places.elsewhere.begin() + more);
  return first;
}

std::string describe(const Placement& placement) {
  std::string text =
      fmt::format("{} worker{} here", placement.here, placement.here == 1 ? "" : "s");
  std::set<std::string> told;
  for (const std::string& host : placement.elsewhere)
    if (told.insert(host).second)
      text += fmt::format(", {} on {}", std::ranges::count(placement.elsewhere, host), host);
  return text;
}

Result<LookedAt> look_at_hosts(const cluster::RemoteShell& shell, const OtherHosts& hosts,
                               const CarriedAlong& carried, bool must_agree, Processes& processes,
                               const Logger& log) {
  const std::vector<std::string> names = each_once(hosts);
  // All are heard out, whatever one of them says.
  cluster::ProcessGroupSpec group{.last_words = kLookAtMost, .at_most = kLookAtMost};
  for (const std::string& host : names)
    group.processes.push_back(shell.process_for(host, look_script(carried), ""));
  HostAnswers answers(names.size());
  auto end = cluster::run_process_group(group, processes, answers, log);
  if (!end)
    return with_context(end.error(), fmt::format("[train] other hosts are reached by "
                                                 "{}, which has to be installed on this one",
                                                 shell.name()));
  if (end->signal) return LookedAt{.address = {}, .interrupted = end->signal};
  const HostsSeen seen(names, answers, end->members, shell, carried);
  const bool lacks_one = std::ranges::any_of(
      hosts.needed, [&](const std::string& host) { return seen.is_absent(host); });
  if (lacks_one || (must_agree && seen.nobody_is_there()))
    return fail(ErrorCode::kUnavailable, seen.describe_absent("cannot take part:"));
  LookedAt looked{
      .address = {}, .absent = seen.describe_absent("cannot take part yet:"), .interrupted = {}};
  if (must_agree) {
    MUSTER_ASSIGN(looked.address, seen.agreed_address());
  }
  return looked;
}

Orders orders_for(const cluster::RemoteStart& start, const RemotePlan& plan,
                  const std::map<std::string, std::string>& environment) {
  return {.invitation = {start.coordinator, start.credentials},
          .worker = start.worker,
          .local_worker = start.local_worker,
          .local_workers = start.local_workers,
          .resumes = plan.resumes,
          .joins = start.joins,
          .needs_run_folder = plan.needs_run_folder,
          .environment = environment};
}

cluster::RemoteWorkers remote_workers(std::shared_ptr<const cluster::RemoteShell> shell,
                                      std::vector<std::string> hosts, CarriedAlong carried,
                                      RemotePlan plan, Processes& processes) {
  cluster::RemoteWorkers workers{
      .hosts = std::move(hosts), .carrier = shell->name(), .start = {}, .can_start = {}};
  workers.start = [shell = std::move(shell), carried = std::move(carried), plan,
                   &processes](const cluster::RemoteStart& start) {
    const Orders orders = orders_for(start, plan, carried.environment);
    return processes.spawn(shell->process_for(start.host, start_script(carried), to_line(orders)));
  };
  return workers;
}

}  // namespace muster::app
