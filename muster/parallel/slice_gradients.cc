#include "muster/parallel/slice_gradients.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <utility>

#include "muster/base/check.h"
#include "muster/models/torch_error.h"
#include "muster/parallel/block_lane.h"
#include "muster/parallel/check_and_clip.h"
#include "muster/parallel/extras.h"
#include "muster/parallel/lane_model.h"
#include "muster/parallel/weight_shards.h"

namespace muster::parallel {
namespace {

// Whoever has not begun a step has nothing to lend yet, and is asked again after this time.
constexpr Duration kUntilAskedAgain = std::chrono::milliseconds(10);

Duration average(Duration sum, std::int32_t lanes) { return sum / lanes; }

// What passes have waited in meetings, from their times; of each as much as it is long.
void take_out(Duration met, StepTimes& times) {
  const auto both = static_cast<double>((times.forward + times.backward).count());
  if (both <= 0) return;
  const double rest = 1 - static_cast<double>(met.count()) / both;
  for (Duration* time : {&times.forward, &times.backward})
    *time = Duration(static_cast<Duration::rep>(static_cast<double>(time->count()) * rest));
}

// All backward passes on a device share libtorch's thread for it. A lane that waits there until
// what others have found may go (ShardExchange::add()) would keep them from finding it.
std::int32_t lanes_of(const SliceOptions& options, c10::Device device) {
  if (options.shard_gradients && !device.is_cpu()) return 1;
  return std::min(options.lanes, options.virtual_workers);
}

}  // namespace

SliceGradients::SliceGradients(std::unique_ptr<models::Model> model, SliceOptions options,
                               Clock& clock)
    : options_(std::move(options)), clock_(clock), pool_(lanes_of(options_, model->device())) {
  // On another device all backward passes would share a thread, and wait in it for each other.
  MUSTER_CHECK(
      !options_.sync_batch_norm || (model->device().is_cpu() && !options_.elastic &&
                                    !options_.backup && !options_.shard_gradients &&
                                    options_.micro_batch_size == 0 && options_.together.size == 1),
      "slices that meet at batch norms are whole, and all computed at once");
  for (std::int32_t lane = 1; lane < pool_.size(); ++lane) {
    lanes_.push_back(make_lane(model->replicate()));
  }
  for (const models::Parameter& parameter : model->parameters()) names_.push_back(parameter.name);
  lanes_.insert(lanes_.begin(), make_lane(std::move(model)));
  for (std::int32_t lane = 0; lane < pool_.size(); ++lane) watch(lane);
}

std::unique_ptr<Lane> SliceGradients::make_lane(std::unique_ptr<models::Model> model) const {
  if (options_.shard_weights)
    return std::make_unique<BlockLane>(std::move(model), options_.compute);
  return std::make_unique<LaneModel>(std::move(model), options_.compute);
}

// In fast mode a lane's only unit is all that it computes.
void SliceGradients::watch(std::int32_t lane) {
  lanes_[static_cast<std::size_t>(lane)]->watch([this, lane](std::string_view pass,
                                                             std::int32_t unit) {
    if (pass.empty() || !options_.ordered) return options_.computing(lane, pass);
    options_.computing(lane, fmt::format("{} of slice {}", pass, unit % options_.virtual_workers));
  });
}

std::int32_t SliceGradients::slot_of(std::size_t parameter) const noexcept {
  return static_cast<std::int32_t>(names_.size() - parameter);
}

std::vector<std::int64_t> SliceGradients::slot_counts() const {
  return LaneModel::slot_counts(model());
}

BucketLayout SliceGradients::bucket_layout() const {
  const std::vector<std::int64_t> counts = slot_counts();
  if (options_.shard_weights)
    return plan_block_buckets(model(), model().parameters(), counts.front(), options_.bucket_sizes);
  return plan_buckets(counts, options_.bucket_sizes);
}

Status SliceGradients::enter(std::shared_ptr<comm::Communicator> communicator,
                             const comm::LeafOwners& owners,
                             std::vector<std::shared_ptr<const comm::Shards>> shards) {
  const comm::Group group = communicator->group();
  const auto slices =
      static_cast<std::int32_t>(std::count(owners.begin(), owners.end(), group.rank));
  const std::int32_t units = std::min(slices, pool_.size());
  if (options_.sync_batch_norm)
    MUSTER_TRY(prepare_meetings(*communicator, owners, options_.ordered ? slices : units));
  const ExchangeOptions exchange_options{
      .tree =
          options_.ordered ? std::make_shared<const comm::SumTree>(owners, group.size) : nullptr,
      .units = units,
      .bucket_sizes = options_.bucket_sizes,
      .op = options_.op,
      .keeps = keeps_in(group),
      .shards = std::move(shards)};
  std::vector<std::int64_t> counts = slot_counts();
  if (options_.shard_gradients) counts.resize(1);
  MUSTER_ASSIGN(auto exchange, GradientExchange::create(communicator, counts, exchange_options));
  if (communicator != communicator_) {
    backup_.reset();
    if (options_.backup && options_.ordered && group.size > 1) {
      unit_sums_.emplace(counts);
      backup_ =
          std::make_unique<SliceBackup>(communicator, unit_sums_->floats().size(), options_.op);
    }
  }
  communicator_ = std::move(communicator);
  exchange_ = std::move(exchange);
  for (const auto& lane : lanes_) lane->use(sink());
  return ok();
}

Status SliceGradients::prepare_meetings(comm::Communicator& communicator,
                                        const comm::LeafOwners& owners, std::int32_t units) {
  const MeetingOptions options{options_.ordered, pool_.size(), options_.op};
  MUSTER_ASSIGN(meeting_, SliceMeeting::create(communicator, owners, options, clock_));
  return models::catch_torch("worker/lane", [&] {
    for (auto lane = static_cast<std::int32_t>(lanes_.size()); lane < units; ++lane) {
      lanes_.push_back(make_lane(model().replicate()));
      watch(lane);
    }
    const std::int32_t threads = unit_pool_ ? unit_pool_->size() : pool_.size();
    if (units > threads) unit_pool_ = std::make_unique<LanePool>(units);
  });
}

void SliceGradients::gather_weights(std::unique_ptr<WeightGathers> gathers) {
  gathers_ = std::move(gathers);
  const auto first_use = [this](std::int32_t unit, std::int32_t pass) {
    return shard_exchange_->turn_of(unit, pass) * 2 * model().blocks().size();
  };
  for (const auto& lane : lanes_)
    static_cast<BlockLane&>(*lane).gather_by(*gathers_, first_use);  // see make_lane()
}

Status SliceGradients::share_gradients(ShardOwners owners, std::unique_ptr<WeightGathers> gathers) {
  shard_exchange_.reset();
  const ShardExchangeOptions options{.layout = bucket_layout(),
                                     .shards = std::move(owners.shards),
                                     .owners = std::move(owners.owners),
                                     .ordered = options_.ordered,
                                     .gathers = !options_.shard_weights,
                                     .lanes = pool_.size(),
                                     .several_passes = options_.micro_batch_size > 0,
                                     .op = options_.op,
                                     .copies = std::move(owners.copies),
                                     .tree = std::move(owners.tree)};
  MUSTER_ASSIGN(shard_exchange_, ShardExchange::create(owners.ranks, *exchange_, options, clock_));
  if (gathers) gather_weights(std::move(gathers));
  for (const auto& lane : lanes_) lane->use(sink());
  return ok();
}

GradientSink& SliceGradients::sink() noexcept {
  if (shard_exchange_) return *shard_exchange_;
  return *exchange_;
}

std::int32_t SliceGradients::leaf_of(SliceIndex slice) const noexcept {
  return options_.together.rank * options_.virtual_workers + to_int(slice);
}

// Ranks that compute a slice together mark its samples once.
std::vector<SliceGradients::Unit> SliceGradients::units_of(const data::StepBatch& batch) const {
  const auto slices = static_cast<std::int32_t>(batch.slices.size());
  // Ordered: each slice by itself; fast: one unit a lane.
  const std::int32_t count = options_.ordered ? slices : std::min(slices, pool_.size());
  std::vector<Unit> units;
  for (std::int32_t u = 0; u < count; ++u) {
    const comm::LeafRange mine = comm::even_share(slices, count, u);
    std::vector<Examples> parts;
    data::RollLimbs roll{};
    for (std::int32_t s = mine.begin; s < mine.end; ++s) {
      const data::SliceBatch& slice = batch.slices[static_cast<std::size_t>(s)];
      const data::RollLimbs mark = data::limbs_of(slice.mark);
      std::transform(roll.begin(), roll.end(), mark.begin(), roll.begin(), std::plus<>());
      const bool meets = options_.runs_empty || options_.sync_batch_norm;
      if (slice.samples > 0 || meets) parts.push_back(examples_of(slice));
    }
    const SliceIndex first = batch.slices[static_cast<std::size_t>(mine.begin)].slice;
    if (options_.together.rank > 0) roll = {};
    units.push_back({options_.ordered ? leaf_of(first) : u, first,
                     parts.empty() ? Examples{} : concatenate(parts), roll});
  }
  return units;
}

Status SliceGradients::run_unit(Lane& lane, const Unit& unit, const StepInput& input, bool first,
                                StepTimes& times) {
  const std::vector<float> notes = notes_of(first ? input.flags : Flags{}, unit.roll);
  if (!unit.examples.inputs.defined()) {
    lane.run_empty(unit.index, notes);
    return ok();
  }
  std::optional<SliceMeeting::Seat> seat;
  if (meeting_) seat.emplace(*meeting_, unit.index);
  for (UnitPass& part : passes(unit, input)) {
    if (seat) part.pass.batch = &*seat;
    MUSTER_ASSIGN(const Lane::Times took, lane.run(part.examples, part.pass, notes, clock_));
    times.forward += took.forward;
    times.backward += took.backward;
  }
  if (seat) seat->over();
  return ok();
}

std::vector<UnitPass> SliceGradients::passes(const Unit& unit, const StepInput& input) const {
  const PassOptions options{options_.micro_batch_size, options_.seed};
  return passes_of(unit.examples, unit.index, unit.first_slice, input, options);
}

Status SliceGradients::begin(const std::vector<Unit>& units, const StepInput& input) {
  if (shard_exchange_) {  // first: it is a collective, in which also those without units take part
    std::vector<std::int64_t> counts;
    counts.reserve(units.size());
    for (const Unit& unit : units)
      counts.push_back(
          std::max<std::int64_t>(1, static_cast<std::int64_t>(passes(unit, input).size())));
    MUSTER_TRY(shard_exchange_->begin(counts));
  }
  if (gathers_)
    MUSTER_TRY(gathers_->begin(
        layout::uses_of_step(shard_exchange_->own_by_turn(), model().blocks().size())));
  if (meeting_) meeting_->begin(static_cast<std::int32_t>(units.size()), input.timeout);
  exchange_->begin(input.timeout);
  if (input.finishes) exchange_->seed(kept_);
  return ok();
}

// Units that meet are all on their way from the first forward to the last backward.
Status SliceGradients::run_lanes(const std::vector<Unit>& units, const StepInput& input,
                                 StepTimes& sum) {
  LanePool& pool = unit_pool_ ? *unit_pool_ : pool_;
  std::vector<StepTimes> times(static_cast<std::size_t>(pool.size()));
  std::atomic<std::size_t> next{0};
  const Status ran = pool.run([&](std::int32_t lane) {
    return run_lane(lane, units, next, input, times[static_cast<std::size_t>(lane)]);
  });
  if (!ran) return meeting_ ? meeting_->cause_of(ran.error()) : ran.error();
  const auto at_once = meeting_ ? static_cast<std::int32_t>(units.size()) : pool.size();
  for (const StepTimes& lane : times) {
    sum.forward += average(lane.forward, at_once);
    sum.backward += average(lane.backward, at_once);
  }
  if (meeting_) take_out(meeting_->waited(), sum);
  return ok();
}

Status SliceGradients::reduce(const StepInput& input, StepReport& report) {
  const std::vector<Unit> units = units_of(input.batch);
  MUSTER_TRY(begin(units, input));
  offer(units, input);
  const TimePoint computing = clock_.now();
  MUSTER_TRY(run_lanes(units, input, report.times));
  const TimePoint waiting = clock_.now();
  // What nobody here could compute in says nothing of this rank's speed.
  const Duration met = meeting_ ? meeting_->waited() : Duration{};
  report.times.computing = waiting - computing - met;
  if (backup_) report.backups = backup_->close();
  const Status helped = help(input);
  const Status reduced = finish();
  if (!reduced) keep(input.step);
  MUSTER_TRY(reduced);
  MUSTER_TRY(helped);
  report.times.exposed_communication = clock_.now() - waiting + met;
  report.bytes_reduced = exchange_->bytes();
  if (shard_exchange_) report.bytes_reduced += shard_exchange_->bytes();
  if (gathers_) report.bytes_reduced += gathers_->sent_bytes();
  if (meeting_) report.bytes_reduced += meeting_->bytes();
  return ok();
}

Status SliceGradients::finish() {
  MUSTER_TRY(exchange_->finish());
  if (shard_exchange_) MUSTER_TRY(shard_exchange_->finish());
  return gathers_ ? gathers_->finish() : ok();
}

void SliceGradients::give_up(const Error& why) {
  if (shard_exchange_) shard_exchange_->give_up(why);
  if (gathers_) gathers_->give_up(why);
  if (meeting_) meeting_->give_up(why);
}

// A lane that ends in an error leaves nothing that others would wait for.
Status SliceGradients::run_lane(std::int32_t lane, const std::vector<Unit>& units,
                                std::atomic<std::size_t>& next, const StepInput& input,
                                StepTimes& times) {
  Status ran = models::catch_torch("worker/lane",
                                   [&] { return run_units(lane, units, next, input, times); });
  if (!ran) give_up(ran.error());
  return ran;
}

Status SliceGradients::run_units(std::int32_t lane, const std::vector<Unit>& units,
                                 std::atomic<std::size_t>& next, const StepInput& input,
                                 StepTimes& times) {
  Lane& model = *lanes_[static_cast<std::size_t>(lane)];
  for (std::size_t u = 0; (u = next++) < units.size();) {
    const auto floats = backup_ ? backup_->claim(units[u].index) : std::nullopt;
    if (floats)
      unit_sums_->deliver(*floats, units[u].index, *exchange_);
    else
      MUSTER_TRY(run_unit(model, units[u], input, u == 0, times));
  }
  return ok();
}

// All but the first, with which this rank's flags go.
void SliceGradients::offer(const std::vector<Unit>& units, const StepInput& input) {
  if (!backup_) return;
  std::vector<std::int32_t> open;
  for (std::size_t u = 1; u < units.size() && !input.finishes; ++u) open.push_back(units[u].index);
  backup_->open(std::move(open));
}

Status SliceGradients::help(const StepInput& input) {
  if (!backup_ || !input.load_slice || input.finishes) return ok();
  TimePoint next = clock_.now() + input.patience;
  while (!exchange_->wait_until(clock_, std::max(next, clock_.now()))) {
    MUSTER_ASSIGN(const Answers answers, backup_->ask());
    if (answers.loan)
      MUSTER_TRY(compute_for(*answers.loan, input));
    else if (answers.ask_again)
      next = clock_.now() + kUntilAskedAgain;
    else
      return ok();
  }
  return ok();
}

Status SliceGradients::compute_for(const Loan& loan, const StepInput& input) {
  MUSTER_ASSIGN(const data::StepBatch batch, input.load_slice(SliceIndex{loan.unit}));
  const std::vector<Unit> units = units_of(batch);
  StepTimes times;
  MUSTER_TRY(pool_.run([&](std::int32_t lane) -> Status {
    if (lane > 0) return ok();
    lanes_.front()->use(*unit_sums_);
    Status ran = run_unit(*lanes_.front(), units.front(), input, false, times);
    lanes_.front()->use(sink());
    return ran;
  }));
  return backup_->give(loan, unit_sums_->floats());
}

void SliceGradients::keep(Step step) {
  if (!keeps_in(communicator_->group())) return;
  kept_ = exchange_->take_kept();
  kept_step_ = step;
}

Status SliceGradients::warm_up(const data::StepBatch& batch) {
  const Examples slice = examples_of(batch.slices.front());
  const std::int64_t most =
      options_.micro_batch_size > 0 ? options_.micro_batch_size : slice.samples();
  const Examples examples = narrow(slice, 0, std::min(slice.samples(), most));
  return pool_.run([&](std::int32_t lane) -> Status {
    lanes_[static_cast<std::size_t>(lane)]->warm_up(examples);
    return ok();
  });
}

Status SliceGradients::compute(const StepInput& input, StepReport& report) {
  MUSTER_TRY(reduce(input, report));
  kept_step_.reset();
  if (input.check_sums) MUSTER_TRY(input.check_sums(exchange_->checksum()));
  MUSTER_TRY(read_extras(exchange_->sum(0), input, report));
  for (models::BlockMetric& metric : model().metrics(summed_statistics()))
    report.model_metrics.push_back({std::move(metric.name), metric.value});
  return ok();
}

Result<std::optional<double>> SliceGradients::check_and_clip(const StepInput& input,
                                                             std::span<const double> squares,
                                                             StepReport& report) const {
  auto divisor = parallel::check_and_clip(input, names_, squares, options_.max_grad_norm, report);
  if (!divisor) return with_source(std::move(divisor).error());
  return divisor;
}

// All ranks have the same sums, so all of them ask whose part of it was not finite.
Error SliceGradients::with_source(Error not_finite) const {
  const comm::Group& group = communicator_->group();
  if (!exchange_->keeps()) return not_finite;
  std::int32_t mine = exchange_->kept_is_finite() ? 0 : 1;
  std::vector<std::int32_t> all(static_cast<std::size_t>(group.size));
  comm::OpOptions op = options_.op;
  op.label = "whose gradients are not finite";
  const Status asked = communicator_
                           ->submit(comm::AllGather{.output = view_of(std::span(all)),
                                                    .input = view_of(std::span(&mine, 1))},
                                    op)
                           .wait();
  if (!asked) return not_finite;  // it says enough by itself
  const auto count = std::ranges::count(all, 1);
  if (count == 0 || count == group.size) {
    not_finite.message += count == 0 ? "; every worker's own part is finite: their sum overflows"
                                     : "; it is so on every worker";
    return not_finite;
  }
  if (mine == 1) {
    not_finite.message += fmt::format(
        "; this worker's part of the sum is not finite by itself, and {} of {} are: look at its "
        "samples, its memory and its processor",
        group.size - count, group.size);
  } else {
    not_finite.peer = Rank{static_cast<std::int32_t>(std::ranges::find(all, 1) - all.begin())};
    not_finite.message += fmt::format("; it comes from rank {}", to_int(not_finite.peer));
  }
  return not_finite;
}

std::vector<at::Tensor> SliceGradients::summed_statistics() const {
  return statistics_in(exchange_->sum(0), model());
}

Status SliceGradients::on_lanes(std::size_t count,
                                const std::function<void(std::size_t, std::size_t)>& body) {
  return pool_.run([&](std::int32_t lane) -> Status {
    const comm::LeafRange mine =
        comm::even_share(static_cast<std::int32_t>(count), pool_.size(), lane);
    body(static_cast<std::size_t>(mine.begin), static_cast<std::size_t>(mine.end));
    return ok();
  });
}

}  // namespace muster::parallel
