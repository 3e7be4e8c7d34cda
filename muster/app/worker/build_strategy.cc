#include "muster/app/worker/build_strategy.h"

#include <utility>

#include "muster/app/worker/build_model.h"
#include "muster/app/worker/cut_blocks.h"
#include "muster/job/enum_names.h"
#include "muster/layout/pipeline/schedule.h"
#include "muster/parallel/data_parallel.h"
#include "muster/parallel/expert/expert_parallel.h"
#include "muster/parallel/pipeline/pipeline.h"
#include "muster/parallel/sharded.h"
#include "muster/parallel/shared_slices.h"

namespace muster::app {
namespace {

comm::Algorithm algorithm_of(job::Algorithm algorithm) {
  switch (algorithm) {
    case job::Algorithm::kRing:
      return comm::Algorithm::kRing;
    case job::Algorithm::kBidirectionalRing:
      return comm::Algorithm::kBidirectionalRing;
    case job::Algorithm::kTree:
      return comm::Algorithm::kTree;
    case job::Algorithm::kDoubleTree:
      return comm::Algorithm::kDoubleTree;
    case job::Algorithm::kHalvingDoubling:
      return comm::Algorithm::kHalvingDoubling;
    case job::Algorithm::kDirect:
      return comm::Algorithm::kDirect;
    case job::Algorithm::kHierarchical:
      return comm::Algorithm::kHierarchical;
    case job::Algorithm::kPairwise:
      return comm::Algorithm::kPairwise;
    case job::Algorithm::kBruck:
      return comm::Algorithm::kBruck;
    case job::Algorithm::kAuto:
      break;
  }
  return comm::Algorithm::kAuto;
}

DType dtype_of(job::Precision precision) {
  switch (precision) {
    case job::Precision::kBF16:
      return DType::kBF16;
    case job::Precision::kFP16:
      return DType::kF16;
    case job::Precision::kF32:
      break;
  }
  return DType::kF32;
}

parallel::SliceOptions options_of(const job::JobSpec& job, const StrategyPlace& place) {
  const job::TrainingSpec& training = job.training;
  return {.ordered = training.mode == job::TrainingMode::kOrdered,
          .virtual_workers = static_cast<std::int32_t>(training.virtual_workers),
          .lanes = static_cast<std::int32_t>(training.lanes.value_or(place.lanes)),
          // In one pass each, where slices meet in it.
          .micro_batch_size = training.sync_batch_norm ? 0 : training.micro_batch_size,
          .max_grad_norm = training.max_grad_norm,
          .compute = compute_of(training),
          .seed = job.seed,
          .bucket_sizes = bucket_sizes_of(job),
          .op = build_op_options(job.communication),
          .elastic = job.keeps_sums(),
          .backup = job.stragglers.backup,
          .shard_gradients = job.strategy.zero_stage >= 2,
          .shard_weights = job.strategy.zero_stage >= 3,
          .sync_batch_norm = training.sync_batch_norm,
          .computing = place.computing};
}

auto optimizer_builder(const job::JobSpec& job, const StrategyPlace& place) {
  return [job, scratch = place.scratch](std::vector<optim::OptimizedParameter> parameters) {
    return build_optimizer(job, std::move(parameters), scratch);
  };
}

Result<parallel::MeshPlace> place_in_mesh(const job::JobSpec& job, const StrategyPlace& place) {
  MUSTER_ASSIGN(auto mesh, mesh_of(job));
  return parallel::MeshPlace{std::move(mesh), place.group};
}

using Built = Result<std::unique_ptr<parallel::ModelStrategy>>;

// Of all parameters of a model.
Result<std::unique_ptr<optim::Optimizer>> optimizer_of(const job::JobSpec& job,
                                                       const models::Model& model,
                                                       const StrategyPlace& place) {
  std::vector<optim::OptimizedParameter> parameters;
  for (const models::Parameter& parameter : model.parameters())
    parameters.push_back({parameter.name, parameter.tensor, parameter.decays});
  return build_optimizer(job, std::move(parameters), place.scratch);
}

Built build_data_parallel(const job::JobSpec& job, std::unique_ptr<models::Model> model,
                          const StrategyPlace& place) {
  model->initialize(job.seed);
  MUSTER_ASSIGN(auto optimizer, optimizer_of(job, *model, place));
  return std::make_unique<parallel::DataParallel>(std::move(model), std::move(optimizer),
                                                  options_of(job, place), system_clock());
}

// As many as workers, unless a mesh has others.
std::optional<std::int32_t> shards_in_mesh(const job::JobSpec& job) {
  if (job.strategy.type != job::StrategyType::kHybrid) return std::nullopt;
  return static_cast<std::int32_t>(job.strategy.mesh.shard);
}

Built build_sharded(const job::JobSpec& job, std::unique_ptr<models::Model> model,
                    const StrategyPlace& place) {
  model->initialize(job.seed);
  MUSTER_ASSIGN(auto sharded, parallel::Sharded::create(
                                  std::move(model), optimizer_builder(job, place),
                                  options_of(job, place), system_clock(), shards_in_mesh(job)));
  return sharded;
}

parallel::TogetherOptions together_of(const job::JobSpec& job) {
  return {.cuts_sequence = job.strategy.sequence_parallel,
          .attention = attention_of(job.strategy.attention),
          .op = build_op_options(job.communication)};
}

// Where experts are dealt, slices that a job does not cut have one pass, of any number of samples.
void leave_slices_whole(const job::JobSpec& job, parallel::SliceOptions& options) {
  if (job.training.gradient_accumulation_steps == 1) options.micro_batch_size = 0;
}

Built build_pipeline(const job::JobSpec& job, models::Model& whole, const StrategyPlace& place) {
  parallel::SliceOptions slices = options_of(job, place);
  if (job.strategy.expert > 1) leave_slices_whole(job, slices);
  parallel::PipelineOptions options;
  MUSTER_ASSIGN(options.schedule.kind,
                layout::pipeline_kind_from_string(job::to_string(job.strategy.schedule)));
  MUSTER_ASSIGN(const parallel::MeshPlace in_mesh, place_in_mesh(job, place));
  options.schedule.stages = in_mesh.mesh.extent(layout::Axis::kPipeline);
  options.schedule.chunks_per_stage = static_cast<std::int32_t>(job.strategy.chunks_per_stage);
  MUSTER_ASSIGN(const auto schedule, layout::make_schedule(options.schedule));
  MUSTER_ASSIGN(options.chunks,
                cut_blocks(job.strategy, whole, place.block_costs, schedule.stage_of));
  options.passes = {slices.micro_batch_size, slices.seed};
  options.max_grad_norm = slices.max_grad_norm;
  options.optimizer_first = job.strategy.optimizer_first;
  options.compute = slices.compute;
  options.bucket_sizes = slices.bucket_sizes;
  options.together = together_of(job);
  options.op = slices.op;
  options.computing = [computing = slices.computing](std::string_view pass) { computing(0, pass); };
  MUSTER_ASSIGN(auto pipeline,
                parallel::Pipeline::create(whole, job.seed, optimizer_builder(job, place),
                                           std::move(options), in_mesh, system_clock()));
  return pipeline;
}

Built build_shared_slices(const job::JobSpec& job, std::unique_ptr<models::Model> model,
                          const StrategyPlace& place) {
  MUSTER_ASSIGN(const parallel::MeshPlace in_mesh, place_in_mesh(job, place));
  MUSTER_ASSIGN(auto strategy,
                parallel::SharedSlices::create(std::move(model), together_of(job),
                                               optimizer_builder(job, place),
                                               options_of(job, place), in_mesh, system_clock()));
  return strategy;
}

Built build_expert(const job::JobSpec& job, std::unique_ptr<models::Model> model,
                   const StrategyPlace& place) {
  parallel::SliceOptions options = options_of(job, place);
  leave_slices_whole(job, options);
  MUSTER_ASSIGN(const parallel::MeshPlace in_mesh, place_in_mesh(job, place));
  MUSTER_ASSIGN(auto strategy,
                parallel::ExpertParallel::create(std::move(model), optimizer_builder(job, place),
                                                 std::move(options), in_mesh, system_clock()));
  return strategy;
}

}  // namespace

models::ContextAttention attention_of(job::ContextAttention attention) {
  return attention == job::ContextAttention::kRing ? models::ContextAttention::kRing
                                                   : models::ContextAttention::kUlysses;
}

parallel::BucketSizes bucket_sizes_of(const job::JobSpec& job) {
  return {.first_bytes = static_cast<std::int64_t>(job.communication.first_bucket_size.count),
          .bytes = static_cast<std::int64_t>(job.communication.bucket_size.count),
          .dtype = dtype_of(job.training.reduce_precision)};
}

comm::OpOptions build_op_options(const job::CommunicationSpec& communication) {
  return {.timeout = communication.timeout,
          .label = {},
          .algorithm = algorithm_of(communication.algorithm),
          .inner = algorithm_of(communication.inner_algorithm),
          .outer = algorithm_of(communication.outer_algorithm)};
}

Result<layout::Mesh> mesh_of(const job::JobSpec& job) {
  using layout::Axis;
  const job::MeshSpec& mesh = job.strategy.mesh;
  layout::MeshExtents extents;
  extents[Axis::kReplicate] = static_cast<std::int32_t>(mesh.replicate);
  extents[Axis::kPipeline] = static_cast<std::int32_t>(mesh.pipeline);
  extents[Axis::kShard] = static_cast<std::int32_t>(mesh.shard);
  extents[Axis::kExpert] = static_cast<std::int32_t>(mesh.expert);
  extents[Axis::kContext] = static_cast<std::int32_t>(mesh.context);
  extents[Axis::kTensor] = static_cast<std::int32_t>(mesh.tensor);
  return layout::Mesh::create(extents, static_cast<std::int32_t>(job.workers.count));
}

std::string mesh_words(const job::JobSpec& job) {
  if (job.strategy.type != job::StrategyType::kHybrid) return {};
  const auto mesh = mesh_of(job);
  return mesh ? mesh->describe() : std::string();
}

bool needs_block_costs(const job::StrategySpec& strategy) {
  return strategy.core() == job::StrategyType::kPipeline && cut_by_cost(strategy);
}

Result<std::unique_ptr<parallel::ModelStrategy>> build_strategy(
    const job::JobSpec& job, std::unique_ptr<models::Model> model, const StrategyPlace& place) {
  switch (job.strategy.core()) {
    case job::StrategyType::kPipeline:
      return build_pipeline(job, *model, place);
    case job::StrategyType::kSharded:
      return build_sharded(job, std::move(model), place);
    case job::StrategyType::kTensor:
    case job::StrategyType::kContext:
      return build_shared_slices(job, std::move(model), place);
    case job::StrategyType::kExpert:
      return build_expert(job, std::move(model), place);
    case job::StrategyType::kAuto:
      return fail(ErrorCode::kInternal,
                  "[worker] strategy.type auto: nobody chose one before the workers were started");
    case job::StrategyType::kHybrid:  // is one of the others
    case job::StrategyType::kData:
      break;
  }
  return build_data_parallel(job, std::move(model), place);
}

}  // namespace muster::app
