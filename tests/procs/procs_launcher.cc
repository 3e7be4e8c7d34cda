// A launcher for tests, to be killed: runs workers that wait, and prints their pids.
#include <iostream>

#include "muster/cluster/launcher.h"

namespace {

class PrintPids : public muster::cluster::LaunchObserver {
 public:
  void on_generation(const muster::cluster::Welcome& generation) override {
    for (const auto& member : generation.members) std::cout << member.info.pid << ' ';
    std::cout << std::endl;
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  muster::cluster::LaunchSpec spec;
  spec.command = {argv[1], "wait"};
  spec.workers = 3;
  PrintPids observer;
  const auto launcher = muster::cluster::create_local_launcher(
      muster::system_processes(), muster::system_files(), muster::create_null_logger());
  const auto end = launcher->run(spec, observer);
  return end && !end->failure ? 0 : 1;
}
