#include "muster/app/launch/live_file.h"

#include <numeric>
#include <utility>

#include "muster/base/exception_error.h"

namespace muster::app {
namespace {

constexpr Duration kLiveEvery = std::chrono::seconds(1);
// What of a heartbeat's weight is left a second later: about the last ten seconds count.
constexpr double kKept = 0.9;

// Nothing is lost with it, so it need not be on the disk.
void replace_file(Files& files, const Path& path, std::string_view text) {
  const Path fresh = path.native() + ".new";
  auto file = files.open(fresh, Files::Open::kTruncate);
  if (file && (*file)->append(std::as_bytes(std::span(text))) && (*file)->close())
    static_cast<void>(files.rename(fresh, path));
}

}  // namespace

LiveFile::LiveFile(Files& files, Path path, Clock& clock)
    : files_(files),
      path_(std::move(path)),
      clock_(clock),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

LiveFile::~LiveFile() {
  thread_.request_stop();
  thread_.join();
  static_cast<void>(files_.remove_all(path_));
}

void LiveFile::set_members(const cluster::MemberList& members) {
  const std::lock_guard lock(mutex_);
  auto before = std::exchange(entries_, {});
  for (const cluster::MemberInfo& member : members) {
    Entry& entry = entries_[member.info.worker] = std::move(before[member.info.worker]);
    entry.now.worker = member.info.worker;
    entry.now.rank = to_int(member.rank);
    entry.now.host = member.info.host;
    entry.now.pid = member.info.pid;
  }
}

void LiveFile::note(std::int32_t worker, const cluster::Progress& progress) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(worker);
  if (found == entries_.end()) return;  // on its way in
  Entry& entry = found->second;
  entry.now.step = to_int(progress.step);
  entry.now.phase = progress.phase;
  entry.now.operation = progress.operation;
  entry.now.resident = progress.resident;
  entry.counts[static_cast<std::size_t>(activity_of(progress))] += 1;
}

void LiveFile::run(const std::stop_token& stop) {
  const std::stop_callback on_stop(stop, [this] {
    const std::lock_guard lock(mutex_);
    wake_.notify_all();
  });
  while (!stop.stop_requested()) {
    static_cast<void>(without_exceptions("launch/live", [this] {
      write();
      return ok();
    }));
    const TimePoint until = clock_.now() + kLiveEvery;
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested() && clock_.wait_until(lock, wake_, until)) continue;
  }
}

void LiveFile::write() {
  const auto workers = present();
  if (workers.empty()) return;
  replace_file(files_, path_, to_json(workers));
}

std::vector<LiveWorker> LiveFile::present() {
  const std::lock_guard lock(mutex_);
  std::vector<LiveWorker> workers;
  for (auto& [number, entry] : entries_) {
    const double all = std::accumulate(entry.counts.begin(), entry.counts.end(), 0.0);
    for (std::size_t i = 0; i < kActivities; ++i) {
      entry.now.shares[i] = all > 0 ? entry.counts[i] / all : 0;
      entry.counts[i] *= kKept;
    }
    workers.push_back(entry.now);
  }
  return workers;
}

}  // namespace muster::app
