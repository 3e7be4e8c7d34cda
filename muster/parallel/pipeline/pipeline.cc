#include "muster/parallel/pipeline/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/base/check.h"
#include "muster/parallel/combine.h"
#include "muster/parallel/extras.h"
#include "muster/parallel/fixed_group.h"
#include "muster/parallel/tensor_bridge.h"

namespace muster::parallel {
namespace {

using layout::Axis;

// Streams of tensors, by the chunk that they come from; those of tied weights follow.
constexpr std::uint32_t kEvaluation = 0x4000;

std::uint32_t stream_of(std::size_t chunk, bool gradient) {
  return 2 * static_cast<std::uint32_t>(chunk) + (gradient ? 1 : 0);
}

// What goes over a stream, for people.
std::string message_name(const ChunkPlaces& places, std::uint32_t stream, std::size_t micro) {
  const std::size_t from = stream % kEvaluation / 2;
  const bool gradient = stream % 2 == 1;
  return fmt::format("{} of {} {}, {}", gradient ? "gradient" : "activation",
                     stream >= kEvaluation ? "evaluation slice" : "micro-batch", micro,
                     places.way(from, gradient ? from - 1 : from + 1));
}

std::vector<std::string> metric_names_of(const models::Model& whole) {
  std::vector<at::Tensor> values;  // any will do
  for (const models::Statistic& statistic : whole.statistics()) values.push_back(statistic.tensor);
  std::vector<std::string> names;
  for (models::BlockMetric& metric : whole.metrics(values)) names.push_back(std::move(metric.name));
  return names;
}

// Actions whose tensors are on their way while another is being computed.
constexpr std::size_t kActionsAhead = 3;

Status check_whole_slices(const PassOptions& passes, const layout::Mesh& mesh) {
  if (mesh.extent(Axis::kExpert) == 1 || passes.micro_batch_size == 0) return ok();
  return fail(
      ErrorCode::kUnsupported,
      "[parallel/pipeline] stages with dealt experts would have different numbers of passes "
      "with micro-batches; more virtual workers make passes smaller as well");
}

}  // namespace

Result<std::unique_ptr<Pipeline>> Pipeline::create(models::Model& whole, std::uint64_t seed,
                                                   const optim::CreateOptimizer& create_optimizer,
                                                   PipelineOptions options, const MeshPlace& place,
                                                   Clock& clock) {
  MUSTER_CHECK(place.mesh.extent(Axis::kPipeline) == options.schedule.stages,
               "the mesh has the schedule's stages");
  MUSTER_TRY(check_whole_slices(options.passes, place.mesh));
  options.together.op = options.op;
  options.bucket_sizes = sizes_for_shards(options.bucket_sizes, place.mesh.extent(Axis::kShard));
  std::unique_ptr<Pipeline> pipeline(new Pipeline(std::move(options), place, clock));
  MUSTER_TRY(pipeline->build(whole, seed, create_optimizer));
  return pipeline;
}

Pipeline::Pipeline(PipelineOptions options, MeshPlace place, Clock& clock)
    : options_(std::move(options)),
      place_(std::move(place)),
      together_(place_, options_.together),
      experts_(place_, options_.op),
      own_stage_{place_.along(Axis::kPipeline)},
      clock_(clock) {}

Status Pipeline::build(models::Model& whole, std::uint64_t seed,
                       const optim::CreateOptimizer& create) {
  MUSTER_ASSIGN(const auto schedule, layout::make_schedule(options_.schedule));
  const Rank me = place_.group.rank;
  places_ = {schedule.stage_of, place_.mesh.group(me, {Axis::kPipeline}), me};
  MUSTER_CHECK(places_.stage_of.size() == options_.chunks.size(),
               "the model is cut as the schedule says");
  note(whole);
  MUSTER_TRY(together_.cut(whole));
  std::vector<std::size_t> blocks;
  layout::Partition chunks;
  for (std::size_t chunk = 0; chunk < options_.chunks.size(); ++chunk) {
    if (!places_.is_mine(chunk)) continue;
    my_chunks_.push_back(chunk);
    const auto begin = static_cast<std::int32_t>(blocks.size());
    const layout::BlockRange range = options_.chunks[chunk];
    for (std::int32_t b = range.begin; b < range.end; ++b)
      blocks.push_back(static_cast<std::size_t>(b));
    chunks.push_back({begin, begin + range.size()});
  }
  auto part = whole.part(blocks);
  MUSTER_TRY(experts_.deal(*part, whole));
  stage_ = std::make_unique<StageModel>(std::move(part), std::move(chunks), options_.compute);
  model().initialize(seed);
  MUSTER_TRY(create_update(create));
  MUSTER_ASSIGN(auto tied, TiedWeights::find(whole, options_.chunks, places_));
  tied_ = std::make_unique<const TiedWeights>(std::move(tied));
  return ok();
}

void Pipeline::note(const models::Model& whole) {
  parameter_count_ = whole.parameter_count();
  for (const models::Parameter& parameter : whole.parameters())
    parameter_names_.push_back(parameter.name);
  state_names_ = parameter_names_;
  for (const models::Parameter& parameter : whole.frozen()) state_names_.push_back(parameter.name);
  for (const models::Statistic& statistic : whole.statistics())
    state_names_.push_back(statistic.name);
  metric_names_ = metric_names_of(whole);
}

Status Pipeline::create_update(const optim::CreateOptimizer& create) {
  std::vector<models::Parameter> owned;
  for (const std::size_t p : stage_->owned()) owned.push_back(model().parameters()[p]);
  const auto at_once = [](std::size_t count,
                          const std::function<void(std::size_t, std::size_t)>& body) {
    body(0, count);
    return ok();
  };
  MUSTER_ASSIGN(update_, PeerUpdate::create(
                             {.parameters = std::move(owned),
                              .layout = plan_buckets(stage_->slot_counts(), options_.bucket_sizes),
                              .place = place_},
                             create, at_once));
  together_.complete_norms(update_->optimizer());
  return experts_.create_update(create, options_.bucket_sizes, together_, at_once);
}

std::vector<PeerUpdate*> Pipeline::updates() const {
  std::vector<PeerUpdate*> updates{update_.get()};
  if (PeerUpdate* const of_experts = experts_.update()) updates.push_back(of_experts);
  return updates;
}

// Along these ranks hold what is no expert's alike.
std::vector<Axis> Pipeline::axes_of_peers() {
  std::vector<Axis> axes = Together::axes_of_peers();
  axes.push_back(Axis::kExpert);
  return axes;
}

std::int32_t Pipeline::ranks_per_replica() const {
  return stages() * together_.parts().size * together_.sharers().size;
}

Rank Pipeline::first_of_replica(Rank rank) const {
  return place_.first_of(rank, axes_of_replica());
}

std::size_t Pipeline::local(std::size_t chunk) const {
  return static_cast<std::size_t>(std::ranges::find(my_chunks_, chunk) - my_chunks_.begin());
}

Status Pipeline::enter(std::shared_ptr<comm::Communicator> communicator,
                       const comm::LeafOwners& owners) {
  MUSTER_TRY(check_same_place(place_.group, communicator->group(), "pipeline",
                              "the blocks lie on {} ranks"));
  Peers peers = update_->peers();
  if (communicator != communicator_) {
    MUSTER_TRY(together_.connect(*communicator));
    MUSTER_ASSIGN(peers, Peers::connect(communicator, place_, axes_of_peers()));
    MUSTER_TRY(experts_.connect(communicator));
    links_ = std::make_unique<StageLinks>(communicator, model().device(), options_.op);
    communicator_ = std::move(communicator);
  }
  slices_ = static_cast<std::int32_t>(owners.size());
  const auto tree = std::make_shared<const comm::SumTree>(peers.owners(together_.leaves(owners)),
                                                          peers.all()->group().size);
  MUSTER_ASSIGN(exchange_, GradientExchange::create(peers.all(), stage_->slot_counts(),
                                                    {.tree = tree,
                                                     .bucket_sizes = options_.bucket_sizes,
                                                     .op = options_.op,
                                                     .shards = update_->shards_for(peers)}));
  stage_->use(*exchange_);
  update_->enter(std::move(peers), *exchange_, options_.op);
  MUSTER_TRY(experts_.enter(owners, axes_of_replica()));
  return tied_->share(model(), *links_);
}

Result<StepReport> Pipeline::step(const StepInput& input) {
  StepReport report;
  const TimePoint began = clock_.now();
  busy_ = {};
  exchange_->begin();
  experts_.begin({});
  std::vector<MicroBatch> batches = micro_batches(input);
  together_.take_bytes();  // of evaluations
  const Status ran = lane_.run([&](std::int32_t) { return run(batches); });
  if (!ran) return cause_of(ran.error());
  MUSTER_TRY(links_->finish());
  MUSTER_TRY(exchange_->finish());
  if (input.check_sums) MUSTER_TRY(input.check_sums(exchange_->checksum()));
  MUSTER_TRY(update_->gather_sums());
  MUSTER_TRY(together_.sum_addends(*update_));
  MUSTER_TRY(experts_.finish());
  report.times.forward = busy_.forward;
  report.times.backward = busy_.backward;
  report.times.computing = busy_.forward + busy_.backward;
  report.times.exposed_communication = clock_.now() - began - report.times.computing;
  report.bytes_reduced = exchange_->bytes() + together_.take_bytes() + experts_.take_bytes();
  MUSTER_TRY(conclude(input, report));
  return report;
}

// What is behind `error`, of which libtorch passes on no more than the text.
Error Pipeline::cause_of(Error error) {
  if (auto of_experts = experts_.take_failure()) return *std::move(of_experts);
  return together_.cause_of(std::move(error));
}

std::vector<Pipeline::MicroBatch> Pipeline::micro_batches(const StepInput& input) {
  stage_->clear();
  std::vector<MicroBatch> batches;
  for (const data::SliceBatch& slice : input.batch.slices) {
    const bool first = &slice == &input.batch.slices.front();
    const models::TensorShare sharers = together_.sharers();
    // Ranks that share a slice mark its samples once.
    const data::RollLimbs roll = sharers.rank == 0 ? data::limbs_of(slice.mark) : data::RollLimbs{};
    const std::vector<float> notes = notes_of(first ? input.flags : Flags{}, roll);
    const std::int32_t unit = sharers.rank * slices_ + to_int(slice.slice);
    if (!has_pass(slice)) {
      stage_->add_nothing(unit, notes);
      continue;
    }
    for (UnitPass& pass : passes_of(examples_of(slice), unit, slice.slice, input, options_.passes))
      batches.push_back({std::move(pass), notes, {}});
  }
  return batches;
}

// Made once for each number of micro-batches: zb_v is the outcome of a search.
Result<const layout::PipelineSchedule*> Pipeline::schedule_of(std::int32_t micro_batches) {
  const auto known = schedules_.find(micro_batches);
  if (known != schedules_.end()) return &known->second;
  layout::PipelineOptions options = options_.schedule;
  options.micro_batches = micro_batches;
  MUSTER_ASSIGN(auto made, layout::make_schedule(options));
  return &schedules_.emplace(micro_batches, std::move(made)).first->second;
}

Status Pipeline::run(std::vector<MicroBatch>& batches) {
  if (batches.empty()) return ok();
  MUSTER_ASSIGN(const layout::PipelineSchedule* const schedule,
                schedule_of(static_cast<std::int32_t>(batches.size())));
  const auto& actions = schedule->actions[static_cast<std::size_t>(own_stage_)];
  std::size_t expected = 0;  // of the actions
  for (std::size_t i = 0; i < actions.size(); ++i) {
    while (expected < std::min(i + kActionsAhead, actions.size()) &&
           expect(actions[expected], batches))
      ++expected;
    expected = std::max(expected, i + 1);
    const auto micro = static_cast<std::size_t>(actions[i].micro_batch);
    const auto chunk = static_cast<std::size_t>(actions[i].chunk);
    switch (actions[i].kind) {
      case layout::ActionKind::kForward:
        MUSTER_TRY(forward(chunk, micro, batches[micro]));
        break;
      case layout::ActionKind::kBackwardWeight:
        backward_weight(chunk, micro, batches[micro]);
        break;
      case layout::ActionKind::kBackward:
      case layout::ActionKind::kBackwardInput:
        MUSTER_TRY(backward(actions[i].kind, chunk, micro, batches[micro]));
    }
  }
  return ok();
}

// Whether what the action needs is on its way, or here.
bool Pipeline::expect(const layout::Action& action, const std::vector<MicroBatch>& batches) {
  if (action.kind == layout::ActionKind::kBackwardWeight) return true;
  const bool gradient = action.kind != layout::ActionKind::kForward;
  const auto chunk = static_cast<std::size_t>(action.chunk);
  if (chunk == (gradient ? places_.last_chunk() : 0)) return true;
  const std::size_t neighbour = gradient ? chunk + 1 : chunk - 1;  // where it comes from
  if (places_.is_mine(neighbour)) return true;
  const auto& examples = batches[static_cast<std::size_t>(action.micro_batch)].unit.examples;
  const std::uint32_t stream = stream_of(neighbour, gradient);
  return links_->expect(
      places_.rank_of(neighbour), {stream, examples.samples()},
      message_name(places_, stream, static_cast<std::size_t>(action.micro_batch)));
}

Status Pipeline::forward(std::size_t chunk, std::size_t micro, MicroBatch& batch) {
  const Examples& examples = batch.unit.examples;
  at::Tensor input = examples.inputs;
  if (chunk > 0) {
    MUSTER_ASSIGN(input, take(chunk - 1, {stream_of(chunk - 1, false), examples.samples()}, micro));
  }
  const TimePoint began = clock_.now();
  tell("forward", batch, chunk);
  at::Tensor output;
  if (chunk == places_.last_chunk())
    batch.loss =
        stage_->forward_loss(local(chunk), micro, input, examples.targets, batch.unit.pass);
  else
    output = stage_->forward(local(chunk), micro, input, batch.unit.pass);
  if (chunk == my_chunks_.back())
    stage_->add_extras(micro, batch.loss, batch.notes, batch.unit.pass);
  busy_.forward += clock_.now() - began;
  options_.computing("");
  if (chunk < places_.last_chunk())
    give(chunk + 1, {stream_of(chunk, false), examples.samples()}, micro, std::move(output));
  return ok();
}

Status Pipeline::backward(layout::ActionKind kind, std::size_t chunk, std::size_t micro,
                          const MicroBatch& batch) {
  const std::int64_t samples = batch.unit.examples.samples();
  at::Tensor gradient;
  if (chunk < places_.last_chunk()) {
    MUSTER_ASSIGN(gradient, take(chunk + 1, {stream_of(chunk + 1, true), samples}, micro));
  }
  MUSTER_TRY(tied_->take(chunk, micro, *stage_, *links_));
  const TimePoint began = clock_.now();
  tell("backward", batch, chunk);
  at::Tensor below = kind == layout::ActionKind::kBackward
                         ? stage_->backward(local(chunk), micro, gradient, batch.unit.pass)
                         : stage_->backward_input(local(chunk), micro, gradient, batch.unit.pass);
  busy_.backward += clock_.now() - began;
  options_.computing("");
  tied_->give(chunk, micro, *stage_, *links_);
  if (chunk > 0) give(chunk - 1, {stream_of(chunk, true), samples}, micro, std::move(below));
  return ok();
}

void Pipeline::backward_weight(std::size_t chunk, std::size_t micro, const MicroBatch& batch) {
  const TimePoint began = clock_.now();
  tell("weights' backward", batch, chunk);
  stage_->backward_weight(local(chunk), micro, batch.unit.pass);
  busy_.backward += clock_.now() - began;
  options_.computing("");
}

void Pipeline::tell(std::string_view pass, const MicroBatch& batch, std::size_t chunk) const {
  options_.computing(
      fmt::format("{} of slice {}, chunk {}", pass, batch.unit.pass.unit % slices_, chunk));
}

// From a neighbouring chunk, on this rank or another.
Result<at::Tensor> Pipeline::take(std::size_t from, TensorKind kind, std::size_t micro) {
  if (places_.is_mine(from)) return std::move(here_.extract({kind.stream, micro}).mapped());
  return links_->recv(places_.rank_of(from), kind, message_name(places_, kind.stream, micro));
}

void Pipeline::give(std::size_t to, TensorKind kind, std::size_t micro, at::Tensor tensor) {
  if (places_.is_mine(to))
    here_[{kind.stream, micro}] = std::move(tensor);
  else
    links_->send(places_.rank_of(to), kind, std::move(tensor),
                 message_name(places_, kind.stream, micro));
}

Status Pipeline::evaluate(const data::StepBatch& batch, std::span<EvaluationTotals> by_slice) {
  Status evaluated = lane_.run([&](std::int32_t) -> Status {
    for (const std::size_t chunk : my_chunks_)
      for (const data::SliceBatch& slice : batch.slices)
        if (has_pass(slice))
          MUSTER_TRY(
              evaluate(chunk, slice, by_slice[static_cast<std::size_t>(to_int(slice.slice))]));
    return links_->finish();
  });
  if (evaluated) return evaluated;
  return cause_of(evaluated.error());
}

Status Pipeline::evaluate(std::size_t chunk, const data::SliceBatch& slice,
                          EvaluationTotals& totals) {
  const at::NoGradGuard no_grad;
  const Examples examples = examples_of(slice);
  const auto number = static_cast<std::size_t>(to_int(slice.slice));
  const auto kind = [&](std::size_t from) {
    return TensorKind{kEvaluation + stream_of(from, false), slice.samples};
  };
  at::Tensor input = examples.inputs;
  if (chunk > 0) {
    MUSTER_ASSIGN(input, take(chunk - 1, kind(chunk - 1), number));
  }
  at::Tensor output = stage_->infer(local(chunk), input);
  if (chunk < places_.last_chunk()) {
    give(chunk + 1, kind(chunk), number, std::move(output));
    return ok();
  }
  totals.add(model().evaluation_loss_sum(output, examples.targets));
  return ok();
}

Result<EvaluationTotals> Pipeline::combine(std::span<const EvaluationTotals> by_slice) {
  return combine_totals(*communicator_, together_.by_leaf(by_slice), model().measures(),
                        options_.op);
}

void Pipeline::fall_behind() { MUSTER_CHECK(false, "stages are not given to newcomers"); }

Status Pipeline::warm_up(const data::StepBatch&) {
  return fail(ErrorCode::kUnsupported, "[parallel/pipeline] nobody joins a pipeline");
}

}  // namespace muster::parallel
