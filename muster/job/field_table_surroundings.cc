#include "muster/job/bind.h"
#include "muster/job/field_table.h"

namespace muster::job {
namespace {

using Unit = Interval::Unit;

constexpr std::string_view kHttpAddress = "^(http://.*)?$";

std::vector<Field> evaluation_fields() {
  const auto in = [](auto member) { return at(&JobSpec::evaluation, member); };
  return {
      bind("evaluation.every", in(&EvaluationSpec::every),
           {.doc = "How often the validation data is gone through.",
            .above = 0,
            .units = {Unit::kSteps, Unit::kEpochs, Unit::kTime, Unit::kEnd, Unit::kNever}}),
      bind("evaluation.batch_size", in(&EvaluationSpec::batch_size),
           {.doc = "Samples that go through the model at once on one lane.",
            .unit = "samples",
            .min = 1}),
      bind("evaluation.metric", in(&EvaluationSpec::metric),
           {.doc = "What the best checkpoint and early stopping go by.",
            .default_text = "accuracy for idx, else loss"}),
      bind("evaluation.metrics", in(&EvaluationSpec::metrics),
           {.doc = "Metrics of a program's own (docs/app.md), told as eval/<name>."}),
      bind("evaluation.early_stop_patience", in(&EvaluationSpec::early_stop_patience),
           {.doc = "Stop after this many evaluations without progress; 0 for never.", .min = 0}),
      bind(
          "evaluation.keep_best", in(&EvaluationSpec::keep_best),
          {.doc =
               "Write a checkpoint whenever the metric is the best so far, and keep it besides the "
               "newest ones."}),
  };
}

std::vector<Field> checkpoint_fields() {
  const auto in = [](auto member) { return at(&JobSpec::checkpoint, member); };
  return {
      bind("checkpoint.every", in(&CheckpointSpec::every),
           {.doc = "How often a checkpoint is written.",
            .above = 0,
            .units = {Unit::kSteps, Unit::kEpochs, Unit::kTime, Unit::kNever}}),
      bind("checkpoint.keep", in(&CheckpointSpec::keep),
           {.doc = "Newest checkpoints that are kept.", .min = 1}),
      bind(
          "checkpoint.at_end", in(&CheckpointSpec::at_end),
          {.doc =
               "Write one when the training ends; one that is interrupted writes it in any case."}),
      bind("checkpoint.asynchronous", in(&CheckpointSpec::asynchronous),
           {.doc = "Write while training goes on."}),
  };
}

// Who they are.
std::vector<Field> workers_fields() {
  const auto in = [](auto member) { return at(&JobSpec::workers, member); };
  return {
      bind(
          "workers.count", in(&WorkersSpec::count),
          {.doc = "Processes that compute; at most training.virtual_workers. `--workers` "
                  "overrides it. Where hosts are given and no number is, as many as they have room "
                  "for.",
           .min = 1,
           .max = 65536}),
      bind(
          "workers.hosts", in(&WorkersSpec::hosts),
          {.doc = "Where they are started, over ssh, and how many on each: [localhost:2, node7:4]; "
                  "localhost is this host, and who has no number gets one worker. `--hosts` and "
                  "`--hostfile` override it; empty: all are started here.",
           .pattern = "^[^-]"}),
      bind("workers.standbys", in(&WorkersSpec::standbys),
           {.doc =
                "Processes besides that at once take the place of one that dies. They apply every "
                "step's update without computing; where all are needed (any strategy but data) "
                "they wait, and get the state with the place.",
            .min = 0,
            .max = 65536}),
      bind("workers.min_workers", in(&WorkersSpec::min_workers),
           {.doc = "The job begins with so many workers, and goes on while so many are left; with "
                   "fewer it waits for those that are started anew, or join. At most count + "
                   "standbys, or max_workers where others may join.",
            .min = 1,
            .max = 65536}),
      bind("workers.majority", in(&WorkersSpec::majority),
           {.doc = "Go on only with more than half of those who trained just before, those that "
                   "come in their places included; with fewer it waits as below min_workers. So no "
                   "minority of a cut network goes on, and of two workers neither without the "
                   "other. Where all are needed (any strategy but data) it changes nothing."}),
      bind("workers.max_workers", in(&WorkersSpec::max_workers),
           {.doc = "The most there may be, with those of other hosts (`muster worker --join`).",
            .min = 1,
            .max = 65536,
            .default_text = "count + standbys"}),
      bind("workers.listen", in(&WorkersSpec::listen),
           {.doc = "This host's address, as others reach it, and a port (0: any), where workers of "
                   "other hosts may join; empty: nobody else may.",
            .pattern = "^(.+:[0-9]+)?$"}),
  };
}

// What is done without them.
std::vector<Field> missing_workers_fields() {
  const auto in = [](auto member) { return at(&JobSpec::workers, member); };
  return {
      bind("workers.max_restarts", in(&WorkersSpec::max_restarts),
           {.doc =
                "How often a new worker is started for one that died, within restart_window; it "
                "joins while the others train on, or where all are needed (any strategy but data) "
                "takes the place of the dead one while they wait. With 0, and min_workers as many "
                "as there are, any death ends the job.",
            .min = 0,
            .max = 1000000}),
      bind("workers.restart_window", in(&WorkersSpec::restart_window),
           {.doc = "How long a restart counts for max_restarts, and in any case until the job is "
                   "past the step at which that worker died: a job of weeks outlives any number "
                   "of deaths, and one that dies at the same place again and again ends.",
            .min = 0.001,
            .max = 31536000}),
      bind("workers.join_timeout", in(&WorkersSpec::join_timeout),
           {.doc =
                "Time for all workers to start and join, and for new ones where too few are left.",
            .min = 1,
            .max = 86400}),
      bind("workers.heartbeat_timeout", in(&WorkersSpec::heartbeat_timeout),
           {.doc = "A worker that is silent for this long counts as dead; sooner, but never below "
                   "1 s and a tenth of this, once it is known how regularly it is heard of, while "
                   "another that has the state is heard of.",
            .min = 0.1,
            .max = 86400}),
  };
}

std::vector<Field> autoscaling_fields() {
  const auto in = [](auto member) { return at(&JobSpec::autoscaling, member); };
  const OnlyWith probe{"autoscaling.policy", {"probe"}};
  const OnlyWith some{"autoscaling.policy", {"throughput", "schedule", "probe"}};
  return {
      bind("autoscaling.policy", in(&AutoscalingSpec::policy),
           {.doc = "What decides how many workers, from workers.min_workers to "
                   "workers.max_workers, train: how much each adds, the time of day, or an answer "
                   "from outside. The result does not depend on it."}),
      bind("autoscaling.every", in(&AutoscalingSpec::every),
           {.doc = "How often it decides.", .min = 0.1, .max = 86400}),
      bind("autoscaling.min_gain", in(&AutoscalingSpec::min_gain),
           {.doc = "A worker more is kept while it adds at least this part of what one gives on "
                   "average.",
            .unit = kShare,
            .above = 0,
            .max = 1,
            .only_with = {"autoscaling.policy", {"throughput"}}}),
      bind("autoscaling.schedule", in(&AutoscalingSpec::schedule),
           {.doc = "Workers by this host's time of day, for example `08:00=2, 20:00=8`.",
            .only_with = {"autoscaling.policy", {"schedule"}}}),
      bind("autoscaling.file", in(&AutoscalingSpec::file),
           {.doc = "A file that holds the number of workers.", .only_with = probe}),
      bind("autoscaling.command", in(&AutoscalingSpec::command),
           {.doc = "A command of the shell that prints it and ends with 0 (1: as it is).",
            .only_with = probe}),
      bind("autoscaling.url", in(&AutoscalingSpec::url),
           {.doc = "An http:// address that answers 200 with it (404: as it is).",
            .pattern = kHttpAddress,
            .only_with = probe}),
      bind(
          "autoscaling.request", in(&AutoscalingSpec::request),
          {.doc = "A command of the shell that has workers of other hosts started, by a cluster's "
                  "own tool: run where more are wanted than are here or coming. It has "
                  "MUSTER_REQUEST_MORE, how many it is to have started, MUSTER_REQUEST_WANTED, "
                  "MUSTER_REQUEST_PRESENT and MUSTER_JOIN_CREDENTIALS, the file for `muster worker "
                  "--credentials`. With workers.listen.",
           .only_with = some}),
      bind("autoscaling.request_timeout", in(&AutoscalingSpec::request_timeout),
           {.doc = "Time for that command, which is killed then.",
            .min = 0.1,
            .max = 86400,
            .only_with = some}),
      bind("autoscaling.request_every", in(&AutoscalingSpec::request_every),
           {.doc = "From one run of it to the next, at least.",
            .min = 0.1,
            .max = 86400,
            .only_with = some}),
      bind("autoscaling.request_patience", in(&AutoscalingSpec::request_patience),
           {.doc = "How long workers that it was to have started, and that have not come, count as "
                   "coming; then they are asked for again. Longer than a cluster's queue.",
            .min = 0.1,
            .max = 31536000,
            .only_with = some}),
  };
}

std::vector<Field> preemption_fields() {
  const auto in = [](auto member) { return at(&JobSpec::preemption, member); };
  return {
      bind(
          "preemption.file", in(&PreemptionSpec::file),
          {.doc = "When this file appears on a worker's host, the worker leaves with the step, and "
                  "the others go on; all stop with a checkpoint where too few would be left, or "
                  "where it is the launcher's host."}),
      bind("preemption.command", in(&PreemptionSpec::command),
           {.doc = "Likewise when this command of the shell ends with 0 (1: no notice) and does "
                   "not print that there is none, as below."}),
      bind("preemption.url", in(&PreemptionSpec::url),
           {.doc =
                "Likewise when this http:// address answers 200 (404: no notice), as the metadata "
                "servers of clouds do; no notice is a text that is empty, FALSE or NONE, or a "
                "list of events without one.",
            .pattern = kHttpAddress}),
      bind("preemption.every", in(&PreemptionSpec::every),
           {.doc = "How often the launcher and each worker of another host ask.",
            .min = 0.1,
            .max = 86400}),
  };
}

std::vector<Field> stragglers_fields() {
  const auto in = [](auto member) { return at(&JobSpec::stragglers, member); };
  return {
      bind("stragglers.compare_every", in(&StragglersSpec::compare_every),
           {.doc = "How often workers compare how fast they are, though not before 5 steps.",
            .min = 0.001,
            .max = 86400}),
      bind("stragglers.rebalance", in(&StragglersSpec::rebalance),
           {.doc = "Share slices out by measured speed; the result stays the same, bit for bit."}),
      bind(
          "stragglers.tell_factor", in(&StragglersSpec::tell_factor),
          {.doc = "A worker that is so many times slower than the others is named, with the cause.",
           .above = 1}),
      bind("stragglers.evict_factor", in(&StragglersSpec::evict_factor),
           {.doc = "One that stays so many times slower is told to go; 0 for never.", .min = 0}),
      bind("stragglers.backup", in(&StragglersSpec::backup),
           {.doc = "A worker that waits computes slices that a late one has not begun; the first "
                   "result counts, and both have the same bits. Not with training.mode fast."}),
  };
}

std::vector<Field> replicas_fields() {
  const auto in = [](auto member) { return at(&JobSpec::replicas, member); };
  return {
      bind("replicas.compare_every", in(&ReplicasSpec::compare_every),
           {.doc = "How often workers that hold the same compare a checksum of weights and "
                   "optimizer state, besides before every evaluation and checkpoint; each keeps a "
                   "copy of the last state that all agreed on. `never` where nobody holds what "
                   "another one holds.",
            .above = 0,
            .units = {Unit::kSteps, Unit::kEpochs, Unit::kNever}}),
      bind("replicas.compare_gradients", in(&ReplicasSpec::compare_gradients),
           {.doc = "How often workers that hold the same compare a checksum of the reduced "
                   "gradients before they update with them, as in `1 steps`: what is wrong is "
                   "never applied. With strategy.type data and context, with several replicas of "
                   "pipeline or tensor, and with meshes of these; not with shards or experts.",
            .above = 0,
            .units = {Unit::kSteps, Unit::kEpochs, Unit::kNever}}),
  };
}

std::vector<Field> communication_fields() {
  const auto in = [](auto member) { return at(&JobSpec::communication, member); };
  return {
      bind("communication.engine", in(&CommunicationSpec::engine),
           {.doc = "native: processes, over shared memory and TCP; loopback: one process; mpi: "
                   "over the MPI that has started the workers (`mpirun -n 8 muster train JOB`), "
                   "and so over whatever it reaches them by, as InfiniBand; they stay the same "
                   "ones from beginning to end; nccl: a GPU for each worker, whose sums in fast "
                   "mode NCCL takes; auto: mpi where an MPI has started workers on "
                   "several hosts, a fast fabric is there and the job allows it, else native."}),
      bind("communication.transport", in(&CommunicationSpec::transport),
           {.doc = "auto: shared memory where all workers are on one host; else TCP, with shared "
                   "memory for what is large between those of one host."}),
      bind("communication.algorithm", in(&CommunicationSpec::algorithm),
           {.doc =
                "Schedule of sums, gathers, broadcasts and exchanges over TCP, where an operation "
                "has it; auto: the one that a table of what links cost finds cheapest. Sums of "
                "ordered mode have their own, and shared memory needs none. pairwise and bruck "
                "are of exchanges (docs/communication.md)."}),
      bind("communication.inner_algorithm", in(&CommunicationSpec::inner_algorithm),
           {.doc = "Of hierarchical: the schedule among the workers of a host."}),
      bind("communication.outer_algorithm", in(&CommunicationSpec::outer_algorithm),
           {.doc = "Of hierarchical: the schedule between hosts."}),
      bind(
          "communication.timeout", in(&CommunicationSpec::timeout),
          {.doc =
               "Longest wait for another worker in one operation; for the sums of a step less, "
               "but never below 2 s or a fifteenth of it, once it is known how long steps take and "
               "others can go on.",
           .min = 0.1,
           .max = 86400}),
      bind("communication.bucket_size", in(&CommunicationSpec::bucket_size),
           {.doc = "Gradients are reduced in pieces of about this size.",
            .min = 1024,
            .max = 1 << 30}),
      bind("communication.first_bucket_size", in(&CommunicationSpec::first_bucket_size),
           {.doc = "The first piece, smaller so that reducing starts early.",
            .min = 1024,
            .max = 1 << 30}),
  };
}

std::vector<Field> logging_fields() {
  return {
      bind("logging.logging_steps", at(&JobSpec::logging, &LoggingSpec::logging_steps),
           {.doc = "Training metrics are told every so many steps.", .unit = "steps", .min = 1}),
      bind("logging.format", at(&JobSpec::logging, &LoggingSpec::format),
           {.doc = "Lines for people, or one JSON object a line."}),
  };
}

std::vector<Field> prometheus_fields() {
  const auto in = [](auto member) { return at(&JobSpec::prometheus, member); };
  return {
      bind(
          "prometheus.listen", in(&PrometheusSpec::listen),
          {.doc = "A port of this host's loopback, as `9464`, or host:port, at which /metrics is "
                  "(0: any port); empty: nowhere. Where other hosts reach it, only with a token or "
                  "a certificate.",
           .pattern = "^((.*:)?[0-9]+)?$"}),
      bind("prometheus.token_file", in(&PrometheusSpec::token_file),
           {.doc = "A file with the token that a scraper must show (in Prometheus: "
                   "authorization.credentials_file)."}),
      bind("prometheus.certificate", in(&PrometheusSpec::certificate),
           {.doc = "A certificate in PEM; with it the endpoint speaks https."}),
      bind("prometheus.key", in(&PrometheusSpec::key), {.doc = "Its private key in PEM."}),
  };
}

std::vector<Field> mlflow_fields() {
  const auto in = [](auto member) { return at(&JobSpec::mlflow, member); };
  return {
      bind("mlflow.tracking_uri", in(&MlflowSpec::tracking_uri),
           {.doc = "Where the server is, as `http://127.0.0.1:5000`; empty: nothing is sent. Its "
                   "account comes from MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or "
                   "MLFLOW_TRACKING_TOKEN.",
            .pattern = "^(https?://.+)?$"}),
      bind("mlflow.experiment", in(&MlflowSpec::experiment),
           {.doc = "In which the run is; it is made where it is not there.",
            .default_text = "the job's name"}),
      bind("mlflow.run_name", in(&MlflowSpec::run_name),
           {.doc = "As the run is shown.", .default_text = "the run's folder"}),
      bind("mlflow.logging_steps", in(&MlflowSpec::logging_steps),
           {.doc = "Training metrics of every so many steps are sent, and of the last; those of "
                   "evaluations always.",
            .unit = "steps",
            .min = 1}),
      bind("mlflow.token_file", in(&MlflowSpec::token_file),
           {.doc = "A file with the token that the server asks for."}),
      bind("mlflow.certificate", in(&MlflowSpec::certificate),
           {.doc = "A file in PEM with the certificate of the authority that vouches for an https "
                   "server; empty: MLFLOW_TRACKING_SERVER_CERT_PATH, or those that the system "
                   "trusts."}),
  };
}

std::vector<Field> trace_fields() {
  return {
      bind("trace.enabled", at(&JobSpec::trace, &TraceSpec::enabled),
           {.doc = "Write `trace/trace-….json` into the run's folder, as `--trace` does."}),
      bind("trace.steps", at(&JobSpec::trace, &TraceSpec::steps),
           {.doc = "How many steps of each worker, from where it begins; 0: all.",
            .unit = "steps",
            .min = 0}),
  };
}

std::vector<Field> generate_fields() {
  const OnlyWith text = language_models();
  return {
      bind("generate.prompt", at(&JobSpec::generate, &GenerateSpec::prompt),
           {.doc = "Text that the sample continues.", .only_with = text}),
      bind("generate.length", at(&JobSpec::generate, &GenerateSpec::length),
           {.doc = "Length of the sample; 0 for none.",
            .unit = "bytes",
            .min = 0,
            .max = 1 << 20,
            .only_with = text}),
      bind("generate.temperature", at(&JobSpec::generate, &GenerateSpec::temperature),
           {.doc = "Above 1 bolder, below 1 safer; 0 always takes the likeliest.",
            .min = 0,
            .only_with = text}),
  };
}

}  // namespace

std::vector<Field> surroundings_fields() {
  std::vector<Field> table;
  for (auto* part : {&evaluation_fields, &checkpoint_fields, &workers_fields,
                     &missing_workers_fields, &autoscaling_fields, &preemption_fields,
                     &stragglers_fields, &replicas_fields, &communication_fields, &logging_fields,
                     &prometheus_fields, &mlflow_fields, &trace_fields, &generate_fields}) {
    for (auto& field : part()) table.push_back(std::move(field));
  }
  return table;
}

}  // namespace muster::job
