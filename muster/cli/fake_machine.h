#pragma once
// For tests of commands.

#include <string>
#include <vector>

#include "muster/cli/machine.h"

namespace muster::cli {

// A machine that has what a test gives it, and the files of the real one.
class FakeMachine : public Machine {
 public:
  std::string host() override { return "fake"; }
  double cores() override { return cores_; }
  MemoryFacts memory() override { return memory_; }
  std::vector<std::string> instruction_sets() override { return instruction_sets_; }
  std::uint64_t open_file_limit() override { return open_files_; }
  std::optional<std::uint64_t> file_size_limit() override { return file_size_; }
  std::vector<app::EngineTrial> try_engines() override {
    return {{"loopback", ok()}, {"shared memory", engine_}};
  }
  Result<comm::MeasuredLink> measure_link(comm::Wire wire) override {
    measured_wires_.push_back(wire);
    return link_;
  }
  Status bind_loopback() override { return loopback_; }
  Status bind_everywhere(std::uint16_t port) override {
    return port == taken_port_ ? Status(fail(ErrorCode::kUnavailable, "in use")) : ok();
  }
  std::vector<HostAddress> addresses() override { return addresses_; }
  Status create_shared_memory() override { return shared_memory_; }
  Result<std::uint64_t> free_space(const Path&) override { return free_space_; }
  Path temporary_folder() override { return "/tmp"; }
  Path folder() override { return system_machine().folder(); }
  bool can_be_started(const Path& program) override {
    return system_machine().can_be_started(program);
  }
  bool is_regular_file(const Path& path) override { return system_machine().is_regular_file(path); }
  bool is_same_file(const Path& one, const Path& other) override {
    return system_machine().is_same_file(one, other);
  }
  std::optional<Path> behind_link(const Path& link) override {
    return system_machine().behind_link(link);
  }
  Status write_in(const Path&) override { return writable_; }
  std::optional<bool> clock_is_synchronised() override { return synchronised_; }
  Result<std::string> output_of(const std::vector<std::string>&,
                                std::chrono::milliseconds) override {
    return worker_;
  }
  Result<std::string> output_in_two(const std::vector<std::string>& command,
                                    std::chrono::milliseconds limit,
                                    const GoesOn& goes_on) override {
    const std::optional<bool> more = goes_on(first_line_);
    return more && !*more ? Result<std::string>(first_line_) : output_of(command, limit);
  }

  double cores_ = 8;
  MemoryFacts memory_{16ull << 30, 8ull << 30};
  std::vector<std::string> instruction_sets_ = {"avx2"};
  std::uint64_t open_files_ = 4096;
  std::optional<std::uint64_t> file_size_ = {};
  std::uint16_t taken_port_ = 0;
  std::vector<HostAddress> addresses_ = {{"10.0.0.5", "eth0"}, {"fd00::5", "eth0"}};
  Status engine_, loopback_, shared_memory_, writable_;
  Result<comm::MeasuredLink> link_ = comm::MeasuredLink{{8e-6, 2.5e-10}, 1e-6};
  std::vector<comm::Wire> measured_wires_ = {};  // one each time
  std::uint64_t free_space_ = 100ull << 30;
  std::optional<bool> synchronised_ = true;
  std::string first_line_ = {};  // of a worker that waits after it
  Result<std::string> worker_ = std::string("libtorch 2.11.0\nmore");
};

}  // namespace muster::cli
