// When a job is over: not before it has waited as it says, and not later because a process hangs.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "muster/cluster/environment.h"
#include "muster/cluster/launcher.h"
#include "muster/cluster/whereabouts.h"
#include "tests/procs/local_launcher.h"

namespace muster::cluster {
namespace {

// Two workers: one here that dies, and a guest whose host dies after that.
class DyingHosts : public LaunchObserver {
 public:
  explicit DyingHosts(Path key) : key_(std::move(key)) {}
  void on_listening(const net::Address& address) override {
    std::ifstream file(key_);
    std::string where;
    std::string credentials;
    file >> where >> credentials;
    auto started =
        system_processes().spawn({.command = {MUSTER_PROCS_WORKER, "wait", "1"},
                                  .environment = to_variables({.coordinator = address,
                                                               .worker = 1,
                                                               .workers = 2,
                                                               .credentials = credentials,
                                                               .whereabouts = seen_->address()}),
                                  .folder = {},
                                  .cores = {}});
    ASSERT_TRUE(started) << started.error().message;
    guest_ = std::move(*started);
  }
  void on_loss(const JobFailure& loss, const Remainder&) override {
    lost.push_back(to_int(loss.rank));
    if (lost.size() == 1) {
      EXPECT_TRUE(guest_->signal(SIGKILL));
    }
    if (lost.size() == 2) std::raise(SIGTERM);  // it is heard while the job waits, or never
  }
  std::vector<int> lost;

 private:
  Path key_;
  std::unique_ptr<Whereabouts> seen_ = *Whereabouts::create();  // nobody reads it
  std::unique_ptr<Process> guest_;
};

JobEnd run_launcher(const LaunchSpec& spec, LaunchObserver& watcher) {
  const auto end = create_local_launcher(system_processes(), system_files(), create_null_logger())
                       ->run(spec, watcher);
  EXPECT_TRUE(end) << end.error().message;
  return end.value_or(JobEnd{});
}

TEST(Endings, AJobWhoseLastGuestDiesWaitsForOthers) {
  const Path folder = Path(::testing::TempDir()) / ("muster_guests_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  LaunchSpec spec;
  spec.command = {MUSTER_PROCS_WORKER, "sigkill", "0"};
  spec.min_workers = spec.max_workers = 2;
  spec.listen = net::Address{"127.0.0.1", 0};
  spec.credentials = folder / "join.key";
  be_patient(spec);
  DyingHosts watcher(spec.credentials);
  const auto end = run_launcher(spec, watcher);
  std::filesystem::remove_all(folder);
  EXPECT_EQ(watcher.lost, (std::vector<int>{0, 1}));
  EXPECT_FALSE(end.failure) << describe(*end.failure);
  EXPECT_EQ(end.signal, SIGTERM);
}

TEST(Endings, AProcessThatDoesNotEndOnceItsWorkerHasLeftIsKilledAndHasEndedWell) {
  LaunchSpec spec;
  spec.command = {MUSTER_PROCS_WORKER, "leave_and_hang"};
  spec.workers = spec.min_workers = 2;
  be_patient(spec);
  spec.exit_patience = std::chrono::milliseconds(100);
  LaunchObserver nobody;
  const auto end = run_launcher(spec, nobody);
  EXPECT_FALSE(end.failure) << describe(*end.failure);
  EXPECT_EQ(end.exit_statuses, (std::vector<int>{-SIGKILL, -SIGKILL}));
}

}  // namespace
}  // namespace muster::cluster
