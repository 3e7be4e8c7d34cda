#include "muster/app/rendezvous/store_errand.h"

#include <fmt/format.h>

#include <cstdio>
#include <istream>
#include <string>

#include "muster/app/rendezvous/torch_store.h"
#include "muster/cluster/meeting.h"

namespace muster::app {
namespace {

Status keep_store(const cluster::StoreErrand& errand, cluster::KvStore& store, Deadline deadline,
                  std::istream& in) {
  MUSTER_TRY(store.set(cluster::meeting_key(errand.by), cluster::to_bytes(errand.text), deadline));
  std::string rest;
  while (std::getline(in, rest)) {
  }
  return ok();
}

Status ask_store(const cluster::StoreErrand& errand, cluster::KvStore& store, Deadline deadline) {
  const auto told = store.get(cluster::meeting_key(errand.by), deadline);
  if (!told) return with_context(told.error(), "rank 0 did not come");
  fmt::print("{}\n", cluster::to_string(*told));
  return ok();
}

Status run(std::istream& in) {
  std::string line;
  std::getline(in, line);
  MUSTER_ASSIGN(const auto errand, cluster::read_errand(line));
  const Deadline deadline = Deadline::after(system_clock(), errand.patience);
  MUSTER_ASSIGN(const auto store, open_torch_store(errand.by, errand.self, deadline));
  return errand.by.rank == 0 ? keep_store(errand, *store, deadline, in)
                             : ask_store(errand, *store, deadline);
}

}  // namespace

ExitCode run_store_errand(std::istream& in) {
  const Status done = run(in);
  if (done) return ExitCode::kDone;
  fmt::print(stderr, "{}\n", done.error().message);
  return exit_code(done.error().code);
}

}  // namespace muster::app
