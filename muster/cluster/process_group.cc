#include "muster/cluster/process_group.h"

#include <algorithm>
#include <csignal>
#include <future>

#include "muster/cluster/stop_wishes.h"
#include "muster/cluster/worker_process.h"

namespace muster::cluster {
namespace {

// What a process's own children still hold open is not waited for any longer.
constexpr Duration kOutputAfterEnd = std::chrono::milliseconds(500);

// All on the loop's thread, but for the constructor and result().
class GroupRun {
 public:
  GroupRun(net::SystemLoop& loop, const ProcessGroupSpec& spec, ProcessGroupObserver& observer)
      : loop_(loop), spec_(spec), observer_(observer) {}

  Status start(Processes& processes, const Logger& log) {
    if (spec_.logs) MUSTER_TRY(spec_.logs->files->create_folders(spec_.logs->folder));
    for (const ProcessSpec& each : spec_.processes) {
      const auto number = static_cast<std::int32_t>(members_.size());
      MUSTER_ASSIGN(WorkerLog lines, open_log(number));
      MUSTER_ASSIGN(auto process, processes.spawn(each));
      members_.push_back(
          std::make_unique<WorkerProcess>(Rank{number}, std::move(process), std::move(lines), log));
    }
    return ok();
  }

  void watch() {
    for (std::size_t i = 0; i < members_.size(); ++i)
      members_[i]->watch(loop_, {[this, i](bool is_error, std::string_view line) {
                                   observer_.on_line(i, is_error, line);
                                 },
                                 [this, i] { note_end(i); }, [this] { consider(); }});
    are_started_ = true;
    if (spec_.at_most)
      limit_ = loop_.call_at(loop_.clock().now() + *spec_.at_most, [this] { kill_all(); });
    if (spec_.leash) leash_ = loop_.watch(*spec_.leash, [this] { look_at_leash(); });
    for (const int number : std::exchange(early_signals_, {})) on_signal(number);
  }

  void on_signal(int number) {
    if (!are_started_) return early_signals_.push_back(number);
    const auto wish = wishes_.hear(number, loop_.clock().now());
    if (wish == StopWishes::Wish::kEcho) return;
    const bool again = wish == StopWishes::Wish::kAtOnce;
    signal_ = signal_.value_or(number);
    observer_.on_stop(number, again);
    if (again) return kill_all();
    ask_all_to_leave();
    if (spec_.grace_of_signal) after(*spec_.grace_of_signal, [this] { kill_all(); });
  }

  void wait() { over_.get_future().wait(); }  // bounded by the processes' lives

  ProcessGroupEnd result() const {
    ProcessGroupEnd end{.members = {}, .failed = failed_, .signal = signal_};
    for (const auto& member : members_)
      end.members.push_back(
          {member->pid(), *member->evidence.end, member->last_lines(), member->log_path()});
    return end;
  }

 private:
  Result<WorkerLog> open_log(std::int32_t number) const {
    if (!spec_.logs) return WorkerLog{};
    return open_worker_log(*spec_.logs->files, spec_.logs->folder, spec_.logs->first + number);
  }

  void look_at_leash() {
    if (net::read_available(*spec_.leash)) return;
    const auto keep = std::exchange(leash_, nullptr);
    observer_.on_leash_end();
    kill_all();
  }

  void note_end(std::size_t number) {
    const bool ended_well = members_[number]->evidence.end->exit_status == 0;
    if (!ended_well && !failed_ && !signal_) {
      failed_ = number;
      after(spec_.last_words, [this] {
        ask_all_to_leave();
        after(spec_.grace, [this] { kill_all(); });
      });
    }
    consider();
  }

  void after(Duration wait, std::function<void()> then) {
    timer_ = loop_.call_at(loop_.clock().now() + wait, std::move(then));
  }

  void consider() {
    if (is_over_ || !std::ranges::all_of(members_, &WorkerProcess::ended)) return;
    if (!std::ranges::all_of(members_, &WorkerProcess::output_ended)) {
      if (!std::exchange(drains_, true))
        after(kOutputAfterEnd, [this] {
          for (const auto& member : members_) member->stop_reading();
          finish();
        });
      return;
    }
    finish();
  }

  void finish() {
    if (std::exchange(is_over_, true)) return;
    timer_ = limit_ = leash_ = nullptr;
    over_.set_value();
  }

  void ask_all_to_leave() {
    for (const auto& member : members_) member->ask_to_leave();
  }
  void kill_all() {
    for (const auto& member : members_) member->kill();
  }

  net::SystemLoop& loop_;
  const ProcessGroupSpec& spec_;
  ProcessGroupObserver& observer_;
  std::vector<std::unique_ptr<WorkerProcess>> members_;
  bool are_started_ = false;  // until then the thread that starts them has them
  std::vector<int> early_signals_;
  StopWishes wishes_;
  std::optional<int> signal_;
  std::optional<std::size_t> failed_;
  net::Registration timer_;
  net::Registration limit_;
  net::Registration leash_;
  bool drains_ = false;
  bool is_over_ = false;
  std::promise<void> over_;
};

}  // namespace

Result<ProcessGroupEnd> run_process_group(const ProcessGroupSpec& spec, Processes& processes,
                                          ProcessGroupObserver& observer, const Logger& log) {
  if (spec.processes.empty())
    return fail(ErrorCode::kInvalid, "[cluster/process_group] nothing to start");
  const auto loop = net::create_loop("processes", log);
  GroupRun run(*loop, spec, observer);
  const net::StopAtEnd stop_first{*loop};
  const auto signals =
      loop->on_signals({SIGINT, SIGTERM, SIGHUP}, [&run](int number) { run.on_signal(number); });
  MUSTER_TRY(run.start(processes, log));
  loop->post([&run] { run.watch(); });
  run.wait();
  return run.result();
}

}  // namespace muster::cluster
