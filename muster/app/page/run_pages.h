#pragma once
// The pages that `muster page` answers with: which runs there are, and each of them as it is now.

#include <optional>
#include <string>
#include <string_view>

#include "muster/app/serve/http_server.h"
#include "muster/base/files.h"

namespace muster::app {

class RunPages {
 public:
  RunPages(Files& files, Path runs) : files_(files), runs_(std::move(runs)) {}

  // "/" is the list, "/run/<its place below the folder of runs>" a run. Nothing else is read: what
  // is no run is not there. Any thread.
  std::optional<HttpAnswer> answer(std::string_view path) const;

 private:
  std::string list() const;

  Files& files_;
  const Path runs_;
};

}  // namespace muster::app
