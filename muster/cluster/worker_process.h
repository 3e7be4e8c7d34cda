#pragma once
// One worker of a job, as its launcher sees it: its process, its output, and what is known of it.
// One that another host has started is known by what it says alone. Of one that this launcher has
// started on another host there is a process here that stands for it, such as ssh's.

#include <functional>
#include <memory>
#include <utility>

#include "muster/base/files.h"
#include "muster/base/log.h"
#include "muster/base/process.h"
#include "muster/cluster/culprit.h"
#include "muster/cluster/line_collector.h"
#include "muster/cluster/messages.h"
#include "muster/cluster/whereabouts.h"
#include "muster/net/loop.h"

namespace muster::cluster {

// Where a worker's lines go: rank-N.log in a folder that is there, behind what it has already.
struct WorkerLog {
  std::unique_ptr<WritableFile> file;  // null: none is kept
  Path path;
};
// An empty folder: none.
Result<WorkerLog> open_worker_log(Files& files, const Path& folder, std::int32_t worker);

// On the loop's thread.
class WorkerProcess {
 public:
  struct Events {
    std::function<void(bool is_error, std::string_view line)> on_line;
    std::function<void()> on_end;  // the process has ended; its last output may still come
    std::function<void()> on_output_end;
  };

  WorkerProcess(Rank rank, std::unique_ptr<Process> process, WorkerLog log, Logger logger);
  WorkerProcess(const WorkerInfo& elsewhere, Logger logger);

  void watch(net::SystemLoop& loop, Events events);
  void stands_for(std::string remote_host);  // before watch()
  void meet(const WorkerInfo& info);         // as it tells of itself
  void ask_to_leave();                       // SIGTERM: it drains; one on another host is cut off
  void kill();          // one elsewhere is only counted out: the coordinator tells it
  void stop_reading();  // when somebody else keeps its pipes open
  void leave_behind();  // killed, and yet it does not end: from here on it counts as ended
  void read_rest();     // what it has written and nobody has read yet, but for an unfinished line
  bool output_ended() const noexcept { return !output_.watch && !error_.watch; }
  bool ended() const noexcept { return evidence.end.has_value() || gone_; }
  // Whether all it had to say has come: its process may be seen to end before its last messages are
  // read, as by a launcher that was stopped meanwhile.
  bool is_heard_out() const noexcept {
    const bool may_come = here && evidence.end;
    return !may_come || evidence.left || evidence.lost || heard_out_;
  }
  void hear_no_more() noexcept { heard_out_ = true; }
  void heard() noexcept { silent_ = false; }
  // Nothing more comes of one that has said nothing since this was called last.
  void hear_out() noexcept { heard_out_ |= std::exchange(silent_, true); }
  bool is_elsewhere() const noexcept { return process_ == nullptr; }
  // Of one here: its process is on its way out, though nobody has seen it end yet.
  bool is_ending(Files& files) const;
  const std::string& remote_host() const noexcept { return remote_host_; }  // empty: this one
  // What stood for it here has ended, and nobody has said how the worker there has.
  bool lost_session() const noexcept { return lost_session_; }
  void take_end(const Ended& ended, TimePoint now);  // as its host says
  void take_leave();                                 // as it says itself
  void gone() noexcept { gone_ = is_elsewhere(); }   // it has left, or its connection has ended
  int pid() const noexcept {                         // 0: not known yet
    return process_ && remote_host_.empty() ? process_->pid() : pid_;
  }
  std::vector<std::string> last_lines() const { return last_lines_.take(); }
  const std::string& log_path() const noexcept { return log_path_; }

  // Where it is, or was when it ended: as it told with its failure, as it has written down, or as
  // its last heartbeat said.
  void read_from(std::unique_ptr<Whereabouts> whereabouts) {
    whereabouts_ = std::move(whereabouts);
  }
  Progress where() const;
  bool is_witnessed() const noexcept {
    return evidence.reported || whereabouts_ || (evidence.end && !lost_session());
  }

  Evidence evidence;
  Progress progress;  // of the last heartbeat, or told with its failure
  std::string host;
  bool here = false;    // has joined, though perhaps not everybody has
  Generation since{0};  // the first generation that it was a member of
  bool killed_by_us = false;
  bool drained = false;          // it was told to go
  bool written_off = false;      // the job goes on without it
  net::Registration exit_timer;  // for its process to end, once it has left

 private:
  struct Stream {
    int fd = -1;
    LineCollector lines;
    net::Registration watch;
  };
  void take_own_end(const ProcessEnd& end);
  void send(int signal);
  void on_readable(Stream& stream);
  void on_line(bool is_error, std::string_view line);

  std::unique_ptr<Process> process_;  // null: it is elsewhere
  int pid_ = 0;
  std::string remote_host_;
  std::optional<ProcessEnd> account_;  // of its end there
  bool lost_session_ = false;
  bool gone_ = false;
  bool heard_out_ = false;
  bool silent_ = true;
  std::unique_ptr<WritableFile> log_;
  std::string log_path_;
  std::unique_ptr<Whereabouts> whereabouts_;
  Logger logger_;
  Events events_;
  LastLines last_lines_;
  Stream output_;
  Stream error_;
  net::Registration end_watch_;
  net::SystemLoop* loop_ = nullptr;
};

}  // namespace muster::cluster
