#pragma once
// Keeps live.json of a run: what every worker does now.

#include <condition_variable>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "muster/app/debug/live_report.h"
#include "muster/base/clock.h"
#include "muster/base/files.h"
#include "muster/cluster/member_list.h"

namespace muster::app {

class LiveFile {
 public:
  // Writes `path` every second, on a thread of its own; a disk that fails costs nothing but this.
  LiveFile(Files& files, Path path, Clock& clock);
  ~LiveFile();  // and the file goes: nobody does anything any more

  void set_members(const cluster::MemberList& members);
  void note(std::int32_t worker, const cluster::Progress& progress);  // a heartbeat

 private:
  struct Entry {
    LiveWorker now;
    std::array<double, kActivities> counts{};  // of heartbeats, older ones for less
  };
  void run(const std::stop_token& stop);
  void write();
  std::vector<LiveWorker> present();

  Files& files_;
  const Path path_;
  Clock& clock_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::map<std::int32_t, Entry> entries_;  // by worker; guarded by mutex_
  std::jthread thread_;
};

}  // namespace muster::app
