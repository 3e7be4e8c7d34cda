#pragma once
// Takes the weights out of a checkpoint, for any tool that reads safetensors.

#include <cstdint>
#include <string_view>

#include "muster/base/files.h"
#include "muster/base/result.h"

namespace muster::checkpoint {

inline constexpr std::string_view kExportedName = "model.safetensors";

struct Exported {
  Path file;
  std::uint64_t bytes = 0;
  std::size_t tensors = 0;
};

struct ExportOptions {
  bool average = false;  // of the weights (the job's ema.decay), where the training kept one
  bool merge = false;    // adapters into the matrices that they lie beside (merge_adapters.h)
  bool replace = false;  // a file that is there
};

// Verifies the checkpoint in `folder` and writes its model into <into>/model.safetensors, in one
// file, with "__metadata__": {"format": "pt"} as Hugging Face's loaders expect; whole or not at
// all. kCorrupt and kNotFound are said of the checkpoint alone; where `into` cannot be written to,
// it is kUnavailable; kInvalid: it holds no average, or no adapters, or `into` has such a file, or
// is a checkpoint.
Result<Exported> export_weights(Files& files, const Path& folder, const Path& into,
                                const ExportOptions& options = {});

}  // namespace muster::checkpoint
