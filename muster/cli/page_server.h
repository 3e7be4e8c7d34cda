#pragma once
// The pages of runs for browsers on this host, for as long as the object lives.

#include <cstdint>
#include <memory>
#include <string>

#include "muster/app/page/run_pages.h"
#include "muster/app/serve/http_server.h"
#include "muster/base/files.h"

namespace muster::cli {

class PageServer {
 public:
  // `runs`: the folder of runs, which may come into being later. `port`: of 127.0.0.1; 0: any that
  // is free. kUnavailable: it cannot be had.
  static Result<std::unique_ptr<PageServer>> open(Files& files, Path runs, std::uint16_t port);

  std::string url() const { return server_->url() + "/"; }

 private:
  PageServer(Files& files, Path runs) : pages_(files, std::move(runs)) {}

  const app::RunPages pages_;
  std::unique_ptr<app::HttpServer> server_;  // answers from the pages
};

}  // namespace muster::cli
