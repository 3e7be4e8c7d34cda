#pragma once
// On what a run ran.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/files.h"

namespace muster::observe {

struct Environment {
  std::string host;
  std::string system;  // "Linux 6.1.0-18-amd64"
  std::string cpu;     // model name
  std::int64_t cores = 0;
  std::uint64_t memory_bytes = 0;
  std::vector<std::string> instruction_sets;  // of those that change kernels: avx2, avx512f, …
  std::vector<std::pair<std::string, std::string>> versions;  // muster, libtorch, compiler, …
  friend bool operator==(const Environment&, const Environment&) = default;
};

// Reads /proc; what cannot be read stays empty. `versions` is the caller's to fill.
Environment read_environment(Files& files);

// The most memory this process has had at once, in bytes; 0 where /proc does not say.
std::uint64_t peak_memory(Files& files);
// What this process, or another one of this host, has in memory now, in bytes; 0 likewise.
std::uint64_t resident_memory(Files& files);
std::uint64_t resident_memory(Files& files, int pid);

std::string to_json(const Environment& environment);
Result<Environment> environment_from_json(std::string_view text);

}  // namespace muster::observe
