#include "muster/job/bind.h"
#include "muster/job/field_table.h"
#include "muster/job/limits.h"

namespace muster::job {
namespace {

using Unit = Interval::Unit;

std::vector<Field> batch_fields() {
  const auto in = [](auto member) { return at(&JobSpec::training, member); };
  return {
      bind("training.epochs", in(&TrainingSpec::epochs),
           {.doc = "Passes over the training data; with max_steps too, the first reached ends it.",
            .min = 1,
            .max = 1'000'000,
            .unset = "none",
            .default_text = "1, where max_steps is not given"}),
      bind("training.max_steps", in(&TrainingSpec::max_steps),
           {.doc = "Optimizer updates.", .min = 1, .max = 1'000'000'000, .unset = "none"}),
      bind("training.global_batch_size", in(&TrainingSpec::global_batch_size),
           {.doc = "Samples of one step over all workers: micro_batch_size × "
                   "gradient_accumulation_steps × virtual_workers.",
            .unit = "samples",
            .min = 1,
            .max = kMostSamples,
            .default_text = "128, or derived"}),
      bind("training.micro_batch_size", in(&TrainingSpec::micro_batch_size),
           {.doc = "Samples that go through the model at once on one lane.",
            .unit = "samples",
            .min = 1,
            .max = kMostPassed,
            .default_text = "derived: one micro-batch a slice"}),
      bind("training.gradient_accumulation_steps", in(&TrainingSpec::gradient_accumulation_steps),
           {.doc = "Micro-batches of one slice, one after the other.",
            .min = 1,
            .max = 1 << 20,
            .default_text = "derived, or 1"}),
      bind("training.virtual_workers", in(&TrainingSpec::virtual_workers),
           {.doc = "Slices of the global batch: the largest useful number of workers. Part of the "
                   "result, unlike the number of workers.",
            .min = 1,
            .max = 65536}),
      bind("training.mode", in(&TrainingSpec::mode),
           {.doc = "ordered: the same bits at any number of workers and lanes; fast: sums in any "
                   "order."}),
      bind("training.lanes", in(&TrainingSpec::lanes),
           {.doc = "Threads of a worker that each run one slice at a time; auto: one a core.",
            .min = 1,
            .max = 1024,
            .unset = "auto"}),
  };
}

std::vector<Field> computing_fields() {
  const auto in = [](auto member) { return at(&JobSpec::training, member); };
  return {
      bind("training.isa", in(&TrainingSpec::isa),
           {.doc = "Highest instruction set of the kernels; set it where hosts differ and the "
                   "result must not."}),
      bind("training.max_grad_norm", in(&TrainingSpec::max_grad_norm),
           {.doc = "Clips the gradient to this global norm; 0 for no clipping.", .min = 0}),
      bind("training.loss", in(&TrainingSpec::loss),
           {.doc = "What is minimised. Programs of your own may add others (docs/app.md)."}),
      bind("training.label_smoothing", in(&TrainingSpec::label_smoothing),
           {.doc = "Share of each target that is spread evenly over all classes, in the loss of "
                   "training steps; evaluations take the plain loss.",
            .unit = kShare,
            .min = 0,
            .below = 1}),
      bind("training.sync_batch_norm", in(&TrainingSpec::sync_batch_norm),
           {.doc =
                "Batch norm by mean and variance over the whole batch, all slices of all workers, "
                "instead of over each slice. Slices then meet at each such layer, forward and "
                "back, and a worker has all of its own in memory at once."}),
      bind("training.freeze", in(&TrainingSpec::freeze),
           {.doc = "Patterns for names of parameters that stay as they are, such as "
                   "[\"embedding.*\"]: they get no gradient, no traffic, no optimizer state. `*` "
                   "stands for any characters, `?` for one, `[8-12]` for a number from 8 to 12."}),
      bind(
          "training.precision", in(&TrainingSpec::precision),
          {.doc = "In which the model's products compute; weights, norms, losses and the optimizer "
                  "are f32 in each. fp16 scales the loss."}),
      bind("training.reduce_precision", in(&TrainingSpec::reduce_precision),
           {.doc = "In which gradients travel between workers; every sum of two is rounded to it, "
                   "inside a worker too, so the bits stay those of any number. bf16 and fp16 halve "
                   "the traffic."}),
      bind(
          "training.recompute", in(&TrainingSpec::recompute),
          {.doc =
               "Patterns for names of blocks, such as [\"layer*\"], that keep only their input for "
               "backward, which computes the rest again: less memory, up to a third more "
               "computing, the same bits. `*` stands for any characters, `?` for one, `[8-12]` for "
               "a number from 8 to 12."}),
  };
}

std::vector<Field> loss_scale_fields() {
  const OnlyWith fp16{"training.precision", {"fp16"}};
  const auto in = [](auto member) {
    return at(&JobSpec::training, &TrainingSpec::loss_scale, member);
  };
  return {
      bind("training.loss_scale.init_scale", in(&LossScaleSpec::init_scale),
           {.doc = "What the loss is multiplied by at the start.",
            .above = 0,
            .max = 1e38,
            .only_with = fp16}),
      bind("training.loss_scale.growth_factor", in(&LossScaleSpec::growth_factor),
           {.doc = "By which the scale grows.", .above = 1, .max = 1e6, .only_with = fp16}),
      bind("training.loss_scale.backoff_factor", in(&LossScaleSpec::backoff_factor),
           {.doc = "By which it shrinks where gradients overflow; that step changes nothing.",
            .above = 0,
            .below = 1,
            .only_with = fp16}),
      bind("training.loss_scale.growth_interval", in(&LossScaleSpec::growth_interval),
           {.doc = "Steps in a row without an overflow after which it grows.",
            .unit = "steps",
            .min = 1,
            .only_with = fp16}),
      bind("training.loss_scale.min_scale", in(&LossScaleSpec::min_scale),
           {.doc = "It shrinks no further; three overflows in a row there end the training.",
            .above = 0,
            .max = 1e38,
            .only_with = fp16}),
  };
}

template <class Member>
Field mesh_axis(std::string name, Member member, std::string_view doc) {
  return bind(std::move(name), at(&JobSpec::strategy, &StrategySpec::mesh, member),
              {.doc = doc,
               .excluded = 0,
               .min = -1,
               .max = 65536,
               .only_with = {"strategy.type", {"hybrid"}}});
}

std::vector<Field> mesh_fields() {
  return {
      mesh_axis("strategy.mesh.replicate", &MeshSpec::replicate,
                "Whole copies, each with other samples. Of one axis -1: as many as are left of "
                "workers.count."),
      mesh_axis("strategy.mesh.pipeline", &MeshSpec::pipeline,
                "Stages of a pipeline, as strategy.stages."),
      mesh_axis("strategy.mesh.shard", &MeshSpec::shard,
                "Workers with other samples that share out what strategy.zero_stage says of what "
                "they hold; beside pipeline and expert that is the optimizer's state."),
      mesh_axis("strategy.mesh.expert", &MeshSpec::expert,
                "Workers that hold the experts between them, as strategy.expert."),
      mesh_axis("strategy.mesh.context", &MeshSpec::context,
                "Workers that share each sequence, as strategy.context."),
      mesh_axis("strategy.mesh.tensor", &MeshSpec::tensor,
                "Workers that hold each large tensor between them, as strategy.tensor."),
  };
}

std::vector<Field> strategy_fields() {
  const auto in = [](auto member) { return at(&JobSpec::strategy, member); };
  return {
      bind("strategy.type", in(&StrategySpec::type),
           {.doc =
                "data: every worker holds everything; sharded (ZeRO): each worker keeps and "
                "updates its share of the optimizer's state only; pipeline: each worker holds "
                "some of the model's blocks; tensor: each worker holds a part of every large "
                "tensor, and all compute each slice together; context: each worker has some "
                "positions of every sequence, and all compute each slice together; expert: each "
                "worker holds some of the experts of a mixture, and tokens travel; hybrid: several "
                "of these, by strategy.mesh. All with the same result (tensor, context: but for "
                "rounding). A worker that dies is replaced; with data the others go on without it. "
                "auto: what `muster plan` finds best when the training begins.",
            .default_text = "hybrid with a strategy.mesh, else data"}),
      bind("strategy.zero_stage", in(&StrategySpec::zero_stage),
           {.doc = "What each worker holds a share of only. 1: the optimizer's state; 2: the "
                   "gradients as well, of which every slice's are sent by themselves: less memory, "
                   "more traffic; 3: the weights as well, of which each block's are gathered for "
                   "every slice, forward and back, and forgotten behind it: least memory, most "
                   "traffic.",
            .min = 1,
            .max = 3,
            .only_with = {"strategy.type", {"sharded", "hybrid"}}}),
  };
}

std::vector<Field> pipeline_fields() {
  const OnlyWith pipeline{"strategy.type", {"pipeline"}};
  const OnlyWith staged{"strategy.type", {"pipeline", "hybrid"}};
  const auto in = [](auto member) { return at(&JobSpec::strategy, member); };
  return {
      bind("strategy.stages", in(&StrategySpec::stages),
           {.doc = "Workers that hold the model together; the others are further replicas.",
            .min = 1,
            .max = 65536,
            .default_text = "those of placement, else workers.count",
            .only_with = pipeline}),
      bind(
          "strategy.schedule", in(&StrategySpec::schedule),
          {.doc = "Order of the micro-batches (slices) on a stage. gpipe: all forward, then all "
                  "backward; 1f1b: in turns, which holds fewer activations; interleaved: the same "
                  "with several chunks of the model on a stage, which waits less; zb_h1: 1f1b with "
                  "the weights' part of backward put off to where it would wait; zb_v: the same "
                  "with two chunks on a stage, placed as a V, which waits least.",
           .default_text = "1f1b, or what passes the stages as placement says",
           .only_with = staged}),
      bind("strategy.chunks_per_stage", in(&StrategySpec::chunks_per_stage),
           {.doc = "Runs of neighbouring blocks on each stage.",
            .min = 1,
            .max = 1024,
            .default_text = "as placement says, else 2 for interleaved and zb_v, 1 for others",
            .only_with = staged}),
      bind("strategy.blocks", in(&StrategySpec::blocks),
           {.doc = "How many of the model's blocks each chunk has, in the model's order; [] cuts "
                   "by the blocks' measured costs.",
            .min = 1,
            .only_with = staged}),
      bind(
          "strategy.placement", in(&StrategySpec::placement),
          {.doc = "Which stage each of the model's blocks is on, by patterns for their names; the "
                  "first that matches a name has it. `*` stands for any characters, `?` for one, "
                  "`[8-12]` for a number from 8 to 12. Blocks that are no neighbours share a stage "
                  "where the schedule passes it again (interleaved, zb_v). {} leaves it to blocks.",
           .min = 0,
           .max = 65535,
           .only_with = staged}),
      bind("strategy.optimizer_first", in(&StrategySpec::optimizer_first),
           {.doc = "Each stage updates its blocks while the norms of all stages are still being "
                   "summed, and rolls back, with the same bits, where these say that gradients are "
                   "to be clipped or are no numbers. It keeps its weights and its optimizer's "
                   "state once more for that.",
            .only_with = staged}),
  };
}

// How many workers share what.
std::vector<Field> sharing_fields() {
  const auto in = [](auto member) { return at(&JobSpec::strategy, member); };
  return {
      bind("strategy.tensor", in(&StrategySpec::tensor),
           {.doc = "Workers that hold the model together, each a part of its attention heads, "
                   "MLPs, vocabulary and convolutions; the others are further replicas. A divisor "
                   "of workers.count, model.n_head and model.n_kv_head.",
            .min = 1,
            .max = 65536,
            .default_text = "workers.count",
            .only_with = {"strategy.type", {"tensor"}}}),
      bind("strategy.sequence_parallel", in(&StrategySpec::sequence_parallel),
           {.doc = "Each worker of a replica computes norms and dropout for its part of every "
                   "sequence only, and keeps only that of the activations between attention and "
                   "MLP. data.context_length is a multiple of strategy.tensor.",
            .only_with = {"strategy.type", {"tensor", "hybrid"}}}),
      bind("strategy.context", in(&StrategySpec::context),
           {.doc = "Workers that share each sequence, some positions each; the others are further "
                   "replicas. A divisor of workers.count.",
            .min = 1,
            .max = 65536,
            .default_text = "workers.count",
            .only_with = {"strategy.type", {"context"}}}),
      bind("strategy.attention", in(&StrategySpec::attention),
           {.doc = "How queries meet the keys of other workers' positions. ulysses: heads are "
                   "exchanged for positions; model.n_head, model.n_kv_head and "
                   "data.context_length are multiples of strategy.context. ring: keys and values "
                   "go around; data.context_length is a multiple of 2 · strategy.context.",
            .default_text = "ulysses where the heads are such multiples, else ring",
            .only_with = {"strategy.type", {"context", "hybrid"}}}),
      bind("strategy.expert", in(&StrategySpec::expert),
           {.doc = "Workers that hold the experts between them, as many each; the others are "
                   "further replicas. A divisor of workers.count and model.num_experts.",
            .min = 1,
            .max = 65536,
            .default_text = "workers.count",
            .only_with = {"strategy.type", {"expert"}}}),
      bind("strategy.redundancy", in(&StrategySpec::redundancy),
           {.doc = "1: each worker keeps in memory what only its neighbour has, as of the last "
                   "step; one that comes in the place of a dead one gets it from there, and no "
                   "step is lost. 0: then all go back to the last checkpoint.",
            .min = 0,
            .max = 1,
            .only_with = {"strategy.type", {"sharded", "pipeline", "tensor", "expert", "hybrid"}}}),
  };
}

std::vector<Field> optimizer_fields() {
  const OnlyWith sgd{"optimizer.type", {"sgd"}};
  const OnlyWith momentum{"optimizer.type", {"sgd", "lars"}};
  const OnlyWith moments{"optimizer.type", {"adamw", "lamb"}};
  const auto in = [](auto member) { return at(&JobSpec::optimizer, member); };
  return {
      bind("optimizer.type", in(&OptimizerSpec::type),
           {.doc =
                "Update rule. lars and lamb scale the rate of each tensor by its norms, for large "
                "batches."}),
      bind("optimizer.learning_rate", in(&OptimizerSpec::learning_rate),
           {.doc = "Peak learning rate, before schedule.scale_with_batch.",
            .above = 0,
            .default_text = "0.001 for adamw and lamb, 0.1 for sgd, 1 for lars"}),
      bind("optimizer.momentum", in(&OptimizerSpec::momentum),
           {.doc = "Momentum of SGD and LARS.", .min = 0, .below = 1, .only_with = momentum}),
      bind("optimizer.nesterov", in(&OptimizerSpec::nesterov),
           {.doc = "Nesterov's form of momentum.", .only_with = sgd}),
      bind("optimizer.weight_decay", in(&OptimizerSpec::weight_decay),
           {.doc = "Strength of weight decay.", .min = 0}),
      bind("optimizer.decoupled_weight_decay", in(&OptimizerSpec::decoupled_weight_decay),
           {.doc = "Shrink weights apart from the gradient; adamw and lamb always do, lars never.",
            .default_text = "false for sgd and lars, true for adamw and lamb",
            .only_with = sgd}),
      bind("optimizer.beta1", in(&OptimizerSpec::beta1),
           {.doc = "Decay of the mean of gradients.", .min = 0, .below = 1, .only_with = moments}),
      bind("optimizer.beta2", in(&OptimizerSpec::beta2),
           {.doc = "Decay of the mean of squared gradients.",
            .min = 0,
            .below = 1,
            .only_with = moments}),
      bind("optimizer.epsilon", in(&OptimizerSpec::epsilon),
           {.doc = "Added to the denominator.",
            .above = 0,
            .default_text = "1e-08 for adamw, 1e-06 for lamb",
            .only_with = moments}),
      bind(
          "optimizer.trust_coefficient", in(&OptimizerSpec::trust_coefficient),
          {.doc = "How far LARS trusts a layer to move in a step, as a share of its weights' norm, "
                  "at learning rate 1.",
           .above = 0,
           .only_with = {"optimizer.type", {"lars"}}}),
      bind("optimizer.decay_norm_and_bias", in(&OptimizerSpec::decay_norm_and_bias),
           {.doc = "Decay norms and biases (1-dimensional parameters) too; with lars and lamb, "
                   "scale their rates as well."}),
      bind("optimizer.groups", in(&OptimizerSpec::groups),
           {.doc = "Parameters with a learning rate (learning_rate_factor, times that of the "
                   "others) or weight_decay of their own, by patterns for their names; the first "
                   "group that matches a name has it."}),
      bind("optimizer.offload", in(&OptimizerSpec::offload),
           {.doc = "Where the optimizer's state lies, which is the part of it that a worker has. "
                   "none: in its memory; disk: in a file without a name, of which it has in memory "
                   "what it is updating (ZeRO-Infinity). The same bits."}),
      bind("optimizer.offload_folder", in(&OptimizerSpec::offload_folder),
           {.doc = "Folder on the disk where that file lies, on each worker's host.",
            .default_text = "the run's folder",
            .only_with = {"optimizer.offload", {"disk"}}}),
  };
}

std::vector<Field> ema_fields() {
  const auto in = [](auto member) { return at(&JobSpec::ema, member); };
  return {
      bind("ema.decay", in(&EmaSpec::decay),
           {.doc = "Share of the average that is left after each update, for example 0.999; 0 for "
                   "no average.",
            .min = 0,
            .below = 1}),
      bind("ema.warmup", in(&EmaSpec::warmup),
           {.doc = "At update t the decay is at most (1 + t) / (10 + t), so that the average soon "
                   "forgets the initial weights."}),
      bind("ema.evaluate", in(&EmaSpec::evaluate),
           {.doc = "Evaluations, and the sample of text at the end, take the average instead of "
                   "the trained weights."}),
  };
}

std::vector<Field> schedule_fields() {
  const auto in = [](auto member) { return at(&JobSpec::schedule, member); };
  return {
      bind("schedule.type", in(&ScheduleSpec::type),
           {.doc = "Shape of the learning rate after the warm-up."}),
      bind("schedule.warmup", in(&ScheduleSpec::warmup),
           {.doc = "Linear rise from 0 to the peak.",
            .min = 0,
            .units = {Unit::kSteps, Unit::kEpochs, Unit::kFraction},
            .default_text = "0 steps; 30% for one_cycle"}),
      bind("schedule.final_ratio", in(&ScheduleSpec::final_ratio),
           {.doc = "Learning rate at the end, as a share of the peak.",
            .unit = kShare,
            .min = 0,
            .max = 1,
            .only_with = {"schedule.type", {"linear", "cosine", "one_cycle"}}}),
      bind("schedule.scale_with_batch", in(&ScheduleSpec::scale_with_batch),
           {.doc = "Multiplies the learning rate by (global_batch_size / base_batch_size), or by "
                   "its square root."}),
      bind("schedule.base_batch_size", in(&ScheduleSpec::base_batch_size),
           {.doc = "The global batch size for which learning_rate was chosen.",
            .unit = "samples",
            .min = 1}),
  };
}

}  // namespace

std::vector<Field> training_fields() {
  std::vector<Field> table = batch_fields();
  for (const auto part :
       {computing_fields, loss_scale_fields, strategy_fields, pipeline_fields, sharing_fields,
        mesh_fields, optimizer_fields, ema_fields, schedule_fields})
    for (auto& field : part()) table.push_back(std::move(field));
  return table;
}

}  // namespace muster::job
