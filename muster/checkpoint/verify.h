#pragma once
// Finds damage in a checkpoint: any changed byte, any missing or surplus one, in any of its files.

#include <optional>
#include <string>
#include <vector>

#include "muster/base/files.h"
#include "muster/base/result.h"
#include "muster/checkpoint/manifest.h"

namespace muster::checkpoint {

struct Damage {
  std::string file;
  std::optional<std::size_t> chunk;  // of 4 MiB, where it is known
  std::string what;
};

struct VerifyReport {
  Path folder;
  std::optional<Step> step;  // known where the manifest can be read
  std::uint64_t bytes = 0;   // checked
  std::vector<Damage> damage;
  bool whole() const noexcept { return damage.empty(); }
};

// Reads the whole checkpoint in `folder`. kNotFound where the folder is missing; everything that is
// wrong with a folder that exists is damage.
Result<VerifyReport> verify_checkpoint(Files& files, const Path& folder);

}  // namespace muster::checkpoint
