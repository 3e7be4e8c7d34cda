#include "muster/cli/compared_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "muster/base/hash.h"
#include "muster/checkpoint/weights.h"

namespace muster::cli {
namespace {

// Of the weights in the run's last whole checkpoint; empty where it has none.
std::string weights_digest(Files& files, const observe::RunFolder& run) {
  const auto newest = checkpoint::find_weights(files, run.root());
  if (!newest || !newest->manifest) return {};
  const checkpoint::Manifest& manifest = *newest->manifest;
  std::vector<std::string> digests;
  for (const checkpoint::FileRecord& file : manifest.files) {
    const bool holds_weights = std::ranges::any_of(
        manifest.model, [&](const auto& tensor) { return tensor.file == file.name; });
    if (holds_weights) digests.push_back(file.sha256);
  }
  if (digests.size() == 1) return digests.front();  // what sha256sum says of the file
  const std::string all = fmt::format("{}", fmt::join(digests, "\n"));
  return to_hex(sha256(std::as_bytes(std::span(all))));
}

}  // namespace

Result<observe::ComparedRun> compared_run(const std::string& name, const observe::RunFolder& run,
                                          Files& files) {
  MUSTER_ASSIGN(observe::ReportInput read, observe::read_run(files, run));
  return observe::ComparedRun{.name = name,
                              .run = std::move(read),
                              .folder = run.root().native(),
                              .weights = weights_digest(files, run)};
}

}  // namespace muster::cli
