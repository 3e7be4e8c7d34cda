#include "muster/cluster/worker_process.h"

#include <fmt/format.h>

#include <csignal>

namespace muster::cluster {

Result<WorkerLog> open_worker_log(Files& files, const Path& folder, std::int32_t worker) {
  WorkerLog log;
  if (folder.empty()) return log;
  log.path = folder / fmt::format("rank-{}.log", worker);
  MUSTER_ASSIGN(log.file, files.open(log.path, Files::Open::kAppend));
  return log;
}

WorkerProcess::WorkerProcess(Rank rank, std::unique_ptr<Process> process, WorkerLog log,
                             Logger logger)
    : process_(std::move(process)),
      log_(std::move(log.file)),
      log_path_(log.path.string()),
      logger_(std::move(logger)),
      output_{process_->output_fd(),
              LineCollector([this](std::string_view line) { on_line(false, line); }), nullptr},
      error_{process_->error_fd(),
             LineCollector([this](std::string_view line) { on_line(true, line); }), nullptr} {
  evidence.rank = rank;
}

WorkerProcess::WorkerProcess(const WorkerInfo& elsewhere, Logger logger)
    : host(elsewhere.host),
      pid_(elsewhere.pid),
      logger_(std::move(logger)),
      output_{-1, LineCollector([](std::string_view) {}), nullptr},
      error_{-1, LineCollector([](std::string_view) {}), nullptr} {
  evidence.rank = Rank{elsewhere.worker};
}

void WorkerProcess::stands_for(std::string remote_host) {
  host = remote_host;
  remote_host_ = std::move(remote_host);
}

// The name by which a person has named a host says more than the one that it has for itself.
void WorkerProcess::meet(const WorkerInfo& info) {
  if (remote_host_.empty()) host = info.host;
  pid_ = info.pid;
}

void WorkerProcess::watch(net::SystemLoop& loop, Events events) {
  loop_ = &loop;
  events_ = std::move(events);
  output_.watch = loop.watch(output_.fd, [this] { on_readable(output_); });
  error_.watch = loop.watch(error_.fd, [this] { on_readable(error_); });
  end_watch_ = loop.watch(process_->end_fd(), [this] {
    const auto end = process_->poll();
    if (!end) return;
    const auto keep = std::exchange(end_watch_, nullptr);
    take_own_end(*end);
    events_.on_end();
  });
}

// Of a remote shell 255 is its own exit status, any other one that of what it ran. What came
// between the hosts is no fault of the worker's, which an exit status would be.
void WorkerProcess::take_own_end(const ProcessEnd& end) {
  constexpr int kOfTheShell = 255;
  evidence.end = account_.value_or(end);
  evidence.end_at = loop_->clock().now();
  if (remote_host_.empty() || account_ || killed_by_us) return;
  if (!end.signal && end.exit_status != kOfTheShell) return;
  lost_session_ = true;
  evidence.end = ProcessEnd{.exit_status = {}, .signal = SIGHUP};
  if (evidence.left) take_leave();
}

void WorkerProcess::take_leave() {
  evidence.left = true;
  gone();
  // It had done all it had to.
  if (std::exchange(lost_session_, false))
    evidence.end = ProcessEnd{.exit_status = 0, .signal = {}};
}

void WorkerProcess::on_readable(Stream& stream) {
  const auto bytes = net::read_available(stream.fd);
  if (bytes) return stream.lines.add(*bytes);
  const auto keep = std::exchange(stream.watch, nullptr);
  stream.lines.end();
  events_.on_output_end();
}

void WorkerProcess::read_rest() {
  for (Stream* stream : {&output_, &error_}) {
    if (!stream->watch) continue;
    // Its end is told where it is watched.
    if (const auto bytes = net::read_available(stream->fd)) stream->lines.add(*bytes);
  }
}

void WorkerProcess::stop_reading() {
  for (Stream* stream : {&output_, &error_}) {
    stream->watch = nullptr;
    stream->lines.end();
  }
}

void WorkerProcess::leave_behind() {
  logger_->warn(
      "[cluster/launcher] worker {} (pid {}) was killed and is not gone ({}): it is left "
      "behind; a debugger, or a disk that does not answer, may hold it",
      to_int(evidence.rank), process_->pid(), describe_process(process_->pid()));
  end_watch_ = nullptr;
  evidence.end = ProcessEnd{.exit_status = {}, .signal = SIGKILL};
  evidence.end_at = loop_->clock().now();
  stop_reading();
}

void WorkerProcess::on_line(bool is_error, std::string_view line) {
  last_lines_.add(line);
  if (log_) {
    const std::string whole = std::string(line) + '\n';
    if (const auto written = log_->append(std::as_bytes(std::span(whole))); !written) {
      logger_->warn("[cluster/log] the log of rank {} ends here: {}", to_int(evidence.rank),
                    written.error().message);
      log_ = nullptr;
    }
  }
  events_.on_line(is_error, line);
}

Progress WorkerProcess::where() const {
  if (evidence.reported || !whereabouts_) return progress;
  return whereabouts_->read();
}

void WorkerProcess::take_end(const Ended& ended, TimePoint now) {
  if ((!is_elsewhere() && remote_host_.empty()) || evidence.end) return;
  if (!evidence.reported) progress = ended.progress;
  if (!is_elsewhere()) {  // its process here is about to end, with the same last lines
    account_ = ended.end;
    return;
  }
  evidence.end = ended.end;
  evidence.end_at = now;
  for (const std::string& line : ended.last_lines) last_lines_.add(line);
  gone();
}

// Until it is reaped its number is nobody else's.
bool WorkerProcess::is_ending(Files& files) const {
  const bool is_here = !is_elsewhere() && remote_host_.empty();
  return is_here && !ended() && muster::is_ending(process_->pid(), files);
}

void WorkerProcess::ask_to_leave() { send(SIGTERM); }

void WorkerProcess::kill() {
  if (ended()) return;
  killed_by_us = true;
  if (is_elsewhere()) return gone();
  send(SIGKILL);
}

void WorkerProcess::send(int signal) {
  if (is_elsewhere() || ended()) return;
  if (const auto sent = process_->signal(signal); !sent) logger_->warn("{}", sent.error().message);
}

}  // namespace muster::cluster
