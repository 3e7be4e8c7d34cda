#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "muster/base/units.h"
#include "muster/job/daily.h"
#include "muster/job/draft.h"
#include "muster/job/enum_names.h"
#include "muster/job/fields.h"
#include "muster/job/listen_address.h"
#include "muster/job/name.h"

namespace muster::job {
namespace {

void check_required(Draft& draft) {
  for (const auto& field : draft.table->all()) {
    if (!field.rules.required || draft.given(field.name) || draft.faulty.contains(field.name)) {
      continue;
    }
    if (field.name == "data.path" && draft.spec.data.type == DataType::kOwn) continue;
    draft.errors.push_back({draft.place_near(field.name),
                            fmt::format("`{}` is missing", field.name),
                            fmt::format("expected {}: {}", expectation(field), field.rules.doc)});
    draft.faulty.insert(field.name);
  }
}

// A field was given that the type chosen elsewhere does not have.
void check_only_with(Draft& draft) {
  for (const auto& field : draft.table->all()) {
    if (!draft.given(field.name)) continue;
    for (const OnlyWith* condition : conditions(field.rules)) {
      if (draft.table->holds(*condition, draft.spec)) continue;
      const auto& [other, values] = *condition;
      const auto value = draft.table->find(other)->print(draft.spec).text;
      draft.complain({field.name, other},
                     fmt::format("`{}` is for {} {}; here it is {}", field.name, other,
                                 fmt::join(values, ", "), value),
                     "remove it");
      break;
    }
  }
}

void resolve_name(Draft& draft, const Path& path) {
  if (!draft.given("name")) {
    draft.spec.name = name_from(path.stem().native());
    draft.derive("name", "from the job file's name");
  }
  if (!is_name(draft.spec.name)) {
    draft.complain(
        {"name"},
        fmt::format("name: `{}` cannot be the name of a folder", excerpt(draft.spec.name)),
        fmt::format("use {}", kNameRule));
  }
}

// What this version cannot give is refused, never quietly replaced.
void check_device(Draft& draft) {
  if (draft.spec.device != DeviceKind::kCuda) return;
  draft.complain({"device"}, "device: cuda is not in this version yet",
                 "use `device: auto` or `device: cpu`");
}

double usual_learning_rate(OptimizerType type) {
  switch (type) {
    case OptimizerType::kSgd:
      return 0.1;
    case OptimizerType::kLars:
      return 1;
    case OptimizerType::kAdamW:
    case OptimizerType::kLamb:
      break;
  }
  return 0.001;
}

void resolve_optimizer(Draft& draft) {
  auto& optimizer = draft.spec.optimizer;
  const auto type = std::string(to_string(optimizer.type));
  if (!draft.given("optimizer.learning_rate")) {
    optimizer.learning_rate = usual_learning_rate(optimizer.type);
    draft.derive("optimizer.learning_rate", "for " + type);
  }
  if (optimizer.type == OptimizerType::kLamb && !draft.given("optimizer.epsilon")) {
    optimizer.epsilon = 1e-6;
    draft.derive("optimizer.epsilon", "for lamb");
  }
  if (optimizer.type == OptimizerType::kAdamW || optimizer.type == OptimizerType::kLamb) {
    optimizer.decoupled_weight_decay = true;
    draft.derive("optimizer.decoupled_weight_decay", type);
  }
  if (optimizer.type == OptimizerType::kSgd && optimizer.nesterov && optimizer.momentum == 0) {
    draft.complain({"optimizer.nesterov", "optimizer.momentum", "optimizer.type"},
                   "optimizer.nesterov needs optimizer.momentum above 0", "0.9 is usual");
  }
}

// What resolved jobs say without an average is the default.
void check_ema(Draft& draft) {
  const EmaSpec& ema = draft.spec.ema;
  if (ema.keeps()) return;
  const auto complain = [&](std::string_view field) {
    draft.complain({field, "ema.decay"}, fmt::format("{} needs ema.decay above 0", field),
                   "0.999 is usual");
  };
  if (!ema.warmup) complain("ema.warmup");
  if (!ema.evaluate) complain("ema.evaluate");
}

void resolve_schedule(Draft& draft) {
  auto& schedule = draft.spec.schedule;
  if (schedule.type == ScheduleType::kOneCycle && !draft.given("schedule.warmup")) {
    schedule.warmup = Interval::of_fraction(0.3);
    draft.derive("schedule.warmup", "for one_cycle");
  }
  // In another unit the length of the data decides; the worker checks again when it knows.
  const auto check = [&](Interval::Unit unit, const auto& length, std::string_view field) {
    if (schedule.warmup.unit() != unit || !length ||
        schedule.warmup.amount() <= static_cast<double>(*length))
      return;
    draft.complain({"schedule.warmup", field},
                   fmt::format("schedule.warmup {} is longer than {} {}",
                               draft.shown("schedule.warmup"), field, draft.shown(field)),
                   "the peak would never be reached");
  };
  check(Interval::Unit::kSteps, draft.spec.training.max_steps, "training.max_steps");
  check(Interval::Unit::kEpochs, draft.spec.training.epochs, "training.epochs");
}

void resolve_evaluation(Draft& draft) {
  auto& evaluation = draft.spec.evaluation;
  if (!draft.given("evaluation.metric")) {
    const DataType type = draft.spec.data.type;
    const bool labelled = type != DataType::kText && type != DataType::kOwn;
    evaluation.metric =
        labelled && draft.spec.classifies() ? MetricKind::kAccuracy : MetricKind::kLoss;
    draft.derive("evaluation.metric", fmt::format("for {} data", data_word(draft.spec)));
  }
  if (evaluation.early_stop_patience > 0 && evaluation.every == Interval::never()) {
    draft.complain(
        {"evaluation.early_stop_patience", "evaluation.every"},
        "evaluation.early_stop_patience needs evaluations, and evaluation.every is never",
        "set evaluation.every, for example `1 epoch`");
  }
}

void resolve_max_workers(Draft& draft) {
  auto& workers = draft.spec.workers;
  if (!draft.given("workers.max_workers")) {
    workers.max_workers = workers.processes();
    draft.derive("workers.max_workers", "count + standbys");
  } else if (workers.max_workers < workers.processes()) {
    draft.complain({"workers.max_workers", "workers.count", "workers.standbys"},
                   fmt::format("workers.max_workers {} is less than the {} this host starts",
                               workers.max_workers, workers.processes()),
                   "it counts them and those of other hosts");
  }
  const bool scales = draft.spec.autoscaling.policy != AutoscalingPolicy::kNone;
  if (workers.max_workers > workers.processes() && workers.listen.empty() && !scales) {
    draft.complain({"workers.max_workers", "workers.listen"},
                   fmt::format("workers.max_workers {} has room for workers of other hosts, and "
                               "workers.listen does not say where they join",
                               workers.max_workers),
                   "for example `listen: 10.0.0.5:29400`; or let autoscaling.policy start them");
  }
}

// Where others may join it begins with them.
void check_least(Draft& draft) {
  const auto& workers = draft.spec.workers;
  if (workers.min_workers <= workers.processes()) return;
  if (!workers.listen.empty() && workers.max_workers > workers.processes()) {
    if (workers.min_workers <= workers.max_workers) return;
    return draft.complain(
        {"workers.min_workers", "workers.max_workers"},
        fmt::format("workers.min_workers {} is more than workers.max_workers {}",
                    draft.shown("workers.min_workers"), draft.shown("workers.max_workers")),
        "the job could not begin: raise max_workers, or lower min_workers");
  }
  const std::string standbys =
      workers.standbys > 0 ? " + workers.standbys " + draft.shown("workers.standbys") : "";
  draft.complain(
      {"workers.min_workers", "workers.count", "workers.standbys"},
      fmt::format("workers.min_workers {} is more than workers.count {}{}",
                  draft.shown("workers.min_workers"), draft.shown("workers.count"), standbys),
      "the job could not begin: raise workers.count, or lower min_workers");
}

// Those that could never get a slice would only follow.
void check_most(Draft& draft) {
  const auto& workers = draft.spec.workers;
  const std::int64_t computing = workers.max_workers - workers.standbys;
  if (!draft.given("workers.max_workers") || computing <= draft.spec.training.virtual_workers)
    return;
  draft.complain(
      {"workers.max_workers", "training.virtual_workers"},
      fmt::format("workers.max_workers {} is more than training.virtual_workers {} can "
                  "keep at work",
                  draft.shown("workers.max_workers"), draft.shown("training.virtual_workers")),
      "each worker needs at least one slice of the batch; raise virtual_workers");
}

void check_who_starts(Draft& draft) {
  const bool listens = !draft.spec.workers.listen.empty();
  const bool requests = !draft.spec.autoscaling.request.empty();
  if (listens && !requests)
    draft.complain({"autoscaling.policy", "workers.listen"},
                   "autoscaling starts workers itself, and workers.listen keeps their places for "
                   "those that other hosts start",
                   "use one of the two, or give `autoscaling.request`, a command that has other "
                   "hosts start them");
  if (requests && !listens)
    draft.complain({"autoscaling.request", "workers.listen"},
                   "autoscaling.request has other hosts start workers, and workers.listen does not "
                   "say where they join",
                   "for example `listen: 10.0.0.5:29400`");
}

void check_daily(Draft& draft) {
  const auto& scaling = draft.spec.autoscaling;
  const auto& workers = draft.spec.workers;
  const auto daily = parse_daily(scaling.schedule);
  if (!daily) return draft.complain({"autoscaling.schedule"}, daily.error().message, "");
  if (scaling.policy != AutoscalingPolicy::kSchedule) return;
  if (daily->empty())
    return draft.complain({"autoscaling.policy", "autoscaling.schedule"},
                          "autoscaling.policy schedule needs autoscaling.schedule",
                          "for example `08:00=2, 20:00=8`");
  for (const DailyEntry& entry : *daily) {
    const bool few = entry.workers < workers.min_workers;
    if (!few && entry.workers <= workers.max_workers) continue;
    const std::string_view limit = few ? "workers.min_workers" : "workers.max_workers";
    draft.complain(
        {"autoscaling.schedule", limit},
        fmt::format("autoscaling.schedule asks for {} at {:02}:{:02}, {} than {} {}",
                    counted(entry.workers, "worker"), entry.minute / 60, entry.minute % 60,
                    few ? "fewer" : "more", limit, draft.shown(limit)),
        "no more than these train, and no fewer");
  }
}

void check_autoscaling(Draft& draft) {
  const auto& scaling = draft.spec.autoscaling;
  if (scaling.policy == AutoscalingPolicy::kNone) return;
  check_who_starts(draft);
  const bool is_fixed = draft.spec.strategy.keeps_ranks();  // which is told there
  if (!is_fixed && draft.spec.workers.max_workers <= draft.spec.workers.min_workers) {
    draft.complain({"autoscaling.policy", "workers.min_workers", "workers.max_workers"},
                   "autoscaling has nothing to decide: workers.max_workers is not above "
                   "workers.min_workers",
                   "for example `min_workers: 1` and `max_workers: 8`");
  }
  check_daily(draft);
  const bool asks = !(scaling.file + scaling.command + scaling.url).empty();
  if (scaling.policy == AutoscalingPolicy::kProbe && !asks)
    draft.complain({"autoscaling.policy"}, "autoscaling.policy probe needs somebody to ask",
                   "autoscaling.file, .command or .url");
}

// Whether other hosts can come there, the network says; what never can be is said here.
void check_listen(Draft& draft) {
  const std::string& listen = draft.spec.workers.listen;
  if (listen.empty()) return;
  const auto colon = listen.rfind(':');
  const std::string host = listen.substr(0, colon);
  const auto complain = [&](std::string_view wrong) {
    draft.complain({"workers.listen"}, fmt::format("workers.listen {}{}", listen, wrong),
                   "its address as they reach it, and a port, for example `10.0.0.5:29400`");
  };
  if (host.empty() || host == "0.0.0.0" || host == "[::]" || colon == std::string::npos)
    return complain(" does not say where other hosts find this one");
  if (const auto port = listen.substr(colon + 1); !is_port(port))
    return complain(fmt::format(": `{}` is no port, which is a number of 0 to 65535", port));
  if (const auto wrong = wrong_number(host); !wrong.empty()) complain(": " + wrong);
}

// MPI makes its world once, of the processes that it has started.
void fix_world(Draft& draft) {
  const auto fix = [&draft](std::string_view field, auto& value, auto needed) {
    draft.settle("communication.engine", field, value, needed,
                 "has the workers that MPI has started, of which none comes or goes",
                 "leave it out, or use communication.engine: native, also under mpirun");
  };
  WorkersSpec& workers = draft.spec.workers;
  fix("workers.standbys", workers.standbys, std::int64_t{0});
  fix("workers.min_workers", workers.min_workers, workers.count);
  if (draft.given("workers.max_workers"))
    fix("workers.max_workers", workers.max_workers, workers.count);
  fix("workers.max_restarts", workers.max_restarts, std::int64_t{0});
  fix("communication.transport", draft.spec.communication.transport, TransportKind::kAuto);
}

void check_workers(Draft& draft) {
  if (draft.spec.communication.engine == EngineKind::kMpi) fix_world(draft);
  resolve_strategy(draft);
  check_cut_outputs(draft);
  resolve_max_workers(draft);
  check_least(draft);
  check_most(draft);
  check_listen(draft);
  check_autoscaling(draft);
  const auto& training = draft.spec.training;
  if (replicas(draft) > training.virtual_workers) {
    draft.complain(
        {"workers.count", "training.virtual_workers"},
        fmt::format("workers.count {} is more than training.virtual_workers {}",
                    draft.shown("workers.count"), draft.shown("training.virtual_workers")),
        "each worker needs at least one slice of the batch; raise virtual_workers");
  }
  const auto& stragglers = draft.spec.stragglers;
  if (stragglers.evict_factor > 0 && stragglers.evict_factor < stragglers.tell_factor) {
    draft.complain(
        {"stragglers.evict_factor", "stragglers.tell_factor"},
        fmt::format("evict_factor {} is below tell_factor {}",
                    draft.shown("stragglers.evict_factor"), draft.shown("stragglers.tell_factor")),
        "whoever is told to go should have been named before");
  }
  if (stragglers.backup && training.mode == TrainingMode::kFast) {
    draft.complain({"stragglers.backup", "training.mode"},
                   "stragglers.backup needs training.mode: ordered",
                   "in fast mode a worker's slices are one piece, which nobody can take a part of");
  }
}

void check_communication(Draft& draft) {
  auto& communication = draft.spec.communication;
  const auto& workers = draft.spec.workers;
  if (communication.engine == EngineKind::kLoopback && workers.processes() > 1) {
    draft.complain({"communication.engine", "workers.count"},
                   fmt::format("engine loopback joins threads of one process, not {} workers",
                               draft.shown("workers.count")),
                   "use communication.engine: native");
  }
  if (communication.engine == EngineKind::kNccl && communication.transport == TransportKind::kShm)
    draft.refuse("communication.engine", "communication.transport",
                 "has messages and ordered sums go over TCP, and what is large inside a host "
                 "through memory",
                 "leave it out, or use communication.engine: native");
  if (communication.first_bucket_size.count <= communication.bucket_size.count) return;
  if (!draft.given("communication.first_bucket_size")) {
    communication.first_bucket_size = communication.bucket_size;
    draft.derive("communication.first_bucket_size", "no more than communication.bucket_size");
  } else {
    draft.complain({"communication.first_bucket_size", "communication.bucket_size"},
                   fmt::format("first_bucket_size {} is more than bucket_size {}",
                               draft.shown("communication.first_bucket_size"),
                               draft.shown("communication.bucket_size")),
                   "the first bucket is the small one");
  }
}

}  // namespace

void resolve(Draft& draft, const Path& path) {
  count_by_hosts(draft);
  name_hybrid(draft);
  resolve_own(draft);
  check_required(draft);
  check_only_with(draft);
  resolve_name(draft, path);
  resolve_paths(draft);
  check_device(draft);
  resolve_model(draft);
  resolve_data(draft);
  resolve_training(draft);
  resolve_optimizer(draft);
  check_ema(draft);
  resolve_schedule(draft);
  resolve_evaluation(draft);
  check_workers(draft);
  resolve_batch_norm(draft);
  check_hosts(draft);
  check_communication(draft);
  check_addresses(draft);
  resolve_prometheus(draft);
  resolve_mlflow(draft);
}

}  // namespace muster::job
