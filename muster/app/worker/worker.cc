#include "muster/app/worker/worker.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <atomic>
#include <future>
#include <utility>

#include "muster/app/worker/build_data.h"
#include "muster/app/worker/build_model.h"
#include "muster/app/worker/control_sink.h"
#include "muster/app/worker/session.h"
#include "muster/app/worker/training.h"
#include "muster/base/exception_error.h"
#include "muster/cluster/environment.h"
#include "muster/job/load.h"
#include "muster/models/torch_error.h"

namespace muster::app {
namespace {

Result<job::Job> load_resolved(Files& files, const observe::RunFolder& folder,
                               const Components& own) {
  return job::load_job(files, folder.resolved_job(), {.fields = own.fields});
}

// The data of who joins others that train is compared with theirs; but none of them may be left.
Status keep_card(Files& files, const Session& session, bool joins_others,
                 const DataPipelines& pipelines) {
  if (!pipelines.card) return ok();
  const Path kept = session.folder().data();
  if (joins_others ? !files.exists(kept) : !session.first_rank()) return ok();
  return keep_data_card(files, kept, *pipelines.card);
}

Result<train::Outcome> prepare_and_train(Session& session, const job::JobSpec& job,
                                         const WorkerOptions& options, DataPipelines pipelines) {
  at::set_num_threads(1);
  return models::catch_torch(
      "worker/train", [&] { return run_training(session, job, std::move(pipelines), options); });
}

train::Outcome not_needed() {
  return {.ending = train::Ending::kDismissed, .progress = {}, .results = {}};
}

// Everything that takes time at the start happens side by side: joining, opening the data, and
// (in the calling thread) libtorch's first steps. Who joins others that train is ready first, so
// that they need not wait.
Result<train::Outcome> run_in_session(Files& files, const WorkerOptions& options, Session& session,
                                      const job::JobSpec& job) {
  // Where ranks have parts all wait for it anyway, and which is its own it learns by joining.
  const bool comes_ready = options.join && !job.strategy.keeps_ranks();
  session.listen(job, options.join);
  auto data = std::async(std::launch::async, [&] {
    return without_exceptions("worker/data", [&] { return build_data(files, job, *options.own); });
  });
  if (!comes_ready) {
    const auto joined = without_exceptions("worker/join", [&] { return session.join(); });
    if (!joined || !*joined) {
      data.wait();
      session.end(joined ? ok() : Status(joined.error()));
      if (!joined) return joined.error();
      return not_needed();
    }
  }
  Result<DataPipelines> pipelines = data.get();
  if (comes_ready && session.leaving()) return not_needed();
  const Status known =
      pipelines ? keep_card(files, session, comes_ready, *pipelines) : Status(pipelines.error());
  Result<train::Outcome> outcome =
      known ? prepare_and_train(session, job, options, std::move(*pipelines)) : known.error();
  session.end(outcome ? ok() : Status(outcome.error()));
  return outcome;
}

}  // namespace

ExitCode run_worker(const WorkerOptions& options, Logger log) {
  Files& files = system_files();
  const auto end = [&](const Error& error) {
    log->error("{}", error.message);
    return exit_code(error.code);
  };
  auto folder = observe::RunFolder::open(files, options.run_folder);
  if (!folder) return end(folder.error());
  auto job = load_resolved(files, *folder, *options.own);
  if (!job) return end(job.error());
  auto session = Session::create(*folder, !options.apart, log);
  if (!session) return end(session.error());
  if (options.watch) (*session)->whereabouts().watch(options.watch);
  auto outcome = run_in_session(files, options, **session, job->spec);
  return outcome ? ExitCode::kDone : end(outcome.error());
}

}  // namespace muster::app
