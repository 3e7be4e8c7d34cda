#pragma once
// What lies in a folder of checkpoints. Touches the disk through Files only; thread-safe.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/files.h"
#include "muster/base/ids.h"
#include "muster/base/result.h"
#include "muster/checkpoint/manifest.h"

namespace muster::checkpoint {

// step-00000500 is attempt 0 to save step 500, step-00000500.2 attempt 2.
struct FolderName {
  Step step{0};
  int attempt = 0;
  friend auto operator<=>(const FolderName&, const FolderName&) = default;
};
std::string to_string(const FolderName& name);
std::optional<FolderName> folder_name_from_string(std::string_view text);

struct Found {
  FolderName name;
  Path folder;
  Result<Manifest> manifest;  // or why it cannot count as whole; kNotFound: a torn save
};

// kCorrupt where the folder is called after another step than its manifest says. One that is called
// otherwise, as what was copied may be, is nothing of the kind.
Status check_step_of_folder(const Path& folder, const Manifest& manifest);

// The manifest of the checkpoint in `folder`, if its files are there in the right sizes and it is
// of the step that the folder is called after.
Result<Manifest> inspect(Files& files, const Path& folder);

// All checkpoints in `folder`, whole or not, by step and attempt; none where it does not exist.
Result<std::vector<Found>> survey(Files& files, const Path& folder);

// The whole checkpoint of a step that counts: the last attempt. Null where there is none.
const Found* last_whole(const std::vector<Found>& all, Step step);

}  // namespace muster::checkpoint
