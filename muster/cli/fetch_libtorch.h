#pragma once
// libtorch for a muster that was installed without it: it is no Debian package, so what is
// installed has a script that fetches it, and the list of what it is made of (script/fetch-wheels).

#include <optional>
#include <string>
#include <vector>

#include "muster/cli/context.h"

namespace muster::cli {

struct LibtorchFetcher {
  Path script;
  Path folder;  // where libtorch is, or will be
  Path pins;    // what it is made of; the folder holds those that it was made of
  std::vector<std::string> command() const {
    return {script.string(), folder.string(), pins.string()};
  }
};

// Nothing: this muster was built with a libtorch, or the script is not there.
std::optional<LibtorchFetcher> libtorch_fetcher(const Context& context);

// kNone: nothing was fetched; kOther: for another muster.
enum class FetchedLibtorch { kNone, kOther, kThis };
FetchedLibtorch fetched_libtorch(const LibtorchFetcher& fetcher, Context& context);

}  // namespace muster::cli
