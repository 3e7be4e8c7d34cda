#include "muster/cli/page_server.h"

#include <utility>

namespace muster::cli {

Result<std::unique_ptr<PageServer>> PageServer::open(Files& files, Path runs, std::uint16_t port) {
  std::unique_ptr<PageServer> server(new PageServer(files, std::move(runs)));
  app::HttpOptions options;
  options.address = {"127.0.0.1", port};
  options.only_loopback_names = true;
  MUSTER_ASSIGN(server->server_,
                app::open_http_server(options, [&pages = server->pages_](std::string_view path) {
                  return pages.answer(path);
                }));
  return server;
}

}  // namespace muster::cli
