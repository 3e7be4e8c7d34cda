#include "muster/cli/fetch_libtorch.h"

namespace muster::cli {

std::optional<LibtorchFetcher> libtorch_fetcher(const Context& context) {
  const Path prefix = worker_path(context).parent_path().parent_path();
  LibtorchFetcher fetcher{.script = prefix / "share/muster/fetch-wheels",
                          .folder = prefix / "lib/muster/libtorch",
                          .pins = prefix / "share/muster/libtorch.txt"};
  if (!context.files.exists(fetcher.script) || !context.files.exists(fetcher.pins))
    return std::nullopt;
  return fetcher;
}

FetchedLibtorch fetched_libtorch(const LibtorchFetcher& fetcher, Context& context) {
  const auto made_of = context.files.read(fetcher.folder / "requirements.txt");
  if (!made_of) return FetchedLibtorch::kNone;
  return *made_of == context.files.read(fetcher.pins).value_or("") ? FetchedLibtorch::kThis
                                                                   : FetchedLibtorch::kOther;
}

}  // namespace muster::cli
