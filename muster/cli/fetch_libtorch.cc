#include "muster/cli/fetch_libtorch.h"

namespace muster::cli {

std::optional<std::vector<std::string>> libtorch_fetcher(const Context& context) {
  const Path prefix = worker_path(context).parent_path().parent_path();
  const Path script = prefix / "share/muster/fetch-wheels";
  const Path pins = prefix / "share/muster/libtorch.txt";
  if (!context.files.exists(script) || !context.files.exists(pins)) return std::nullopt;
  return std::vector<std::string>{script.string(), (prefix / "lib/muster/libtorch").string(),
                                  pins.string()};
}

}  // namespace muster::cli
