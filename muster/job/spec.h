#pragma once
// A job as the program sees it: every value resolved, units converted, the batch identity filled
// in, cross-checks passed. Plain data; load_job() (load.h) is what makes one. The names are those
// of the job file; fields.cc binds each of them to its member, and docs/job.md documents them.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/clock.h"
#include "muster/job/host_list.h"
#include "muster/job/own.h"
#include "muster/job/values.h"

namespace muster::job {

enum class DeviceKind : std::uint8_t { kAuto, kCpu, kCuda };
// kOwn: what a program has added (own.h); its name stands beside.
enum class ModelType : std::uint8_t { kMlp, kResnet, kGpt, kLlama, kMoe, kOwn };
enum class ModelBody : std::uint8_t { kGpt, kLlama };
enum class NormKind : std::uint8_t { kBatch, kGroup, kNone };
enum class MemoryFormat : std::uint8_t { kAuto, kContiguous, kChannelsLast };
enum class DataType : std::uint8_t { kIdx, kImages, kCsv, kText, kOwn };
enum class DecimalMark : std::uint8_t { kPoint, kComma };
enum class ImageMode : std::uint8_t { kRgb, kGray };
enum class TrainingMode : std::uint8_t { kOrdered, kFast };  // same bits at any size | any order
enum class Precision : std::uint8_t { kF32, kBF16, kFP16 };
enum class Isa : std::uint8_t { kAuto, kAvx2, kAvx512 };  // highest kernels that libtorch may use
enum class StrategyType : std::uint8_t {
  kData,
  kSharded,
  kPipeline,
  kTensor,
  kContext,
  kExpert,
  kHybrid,  // several of them, by strategy.mesh
  kAuto,    // planned
};
enum class ContextAttention : std::uint8_t { kUlysses, kRing };
enum class OffloadKind : std::uint8_t { kNone, kDisk };
enum class PipelineSchedule : std::uint8_t { kGPipe, k1F1B, kInterleaved, kZbH1, kZbV };
enum class OptimizerType : std::uint8_t { kSgd, kAdamW, kLars, kLamb };
enum class ScheduleType : std::uint8_t { kConstant, kLinear, kCosine, kOneCycle };
enum class BatchScaling : std::uint8_t { kNone, kLinear, kSqrt };
enum class MetricKind : std::uint8_t { kLoss, kAccuracy, kOwn };
enum class EngineKind : std::uint8_t { kNative, kLoopback, kMpi, kNccl, kAuto };
enum class TransportKind : std::uint8_t { kAuto, kShm, kTcp };
enum class Algorithm : std::uint8_t {
  kAuto,
  kRing,
  kBidirectionalRing,
  kTree,
  kDoubleTree,
  kHalvingDoubling,
  kDirect,
  kHierarchical,
  kPairwise,
  kBruck,
};
enum class AutoscalingPolicy : std::uint8_t { kNone, kThroughput, kSchedule, kProbe };
enum class LogStyle : std::uint8_t { kText, kJson };

inline constexpr std::string_view kCrossEntropy = "cross_entropy";  // training.loss

struct MlpSpec {
  std::vector<std::int64_t> hidden_sizes = {128};
};

struct ResnetSpec {
  std::vector<std::int64_t> channels = {16, 32, 64};  // one entry a stage
  std::int64_t blocks_per_stage = 1;
  NormKind norm = NormKind::kBatch;
};

struct TransformerSpec {  // gpt, llama, moe; the context is data.context_length
  std::int64_t n_layer = 4;
  std::int64_t n_head = 4;
  std::int64_t n_embd = 128;  // a multiple of n_head
  std::int64_t vocab_size = 256;
  std::optional<std::int64_t> intermediate_size;  // unset: the model decides
  bool tie_embeddings = true;                     // false by default with the body of a llama
};

struct LlamaSpec {             // besides TransformerSpec
  std::int64_t n_kv_head = 4;  // a divisor of n_head, which it is by default
  double rope_theta = 10000;
  double rms_norm_eps = 1e-5;
};

struct MoeSpec {  // besides TransformerSpec and, with the body of a llama, LlamaSpec
  ModelBody body = ModelBody::kLlama;
  std::int64_t num_experts = 8;
  std::int64_t num_experts_per_tok = 2;
  std::int64_t decoder_sparse_step = 1;          // every so many layers has experts
  std::optional<double> expert_capacity_factor;  // unset: no token is dropped
  double router_aux_loss_coef = 0.01;
  double router_z_loss_coef = 0.001;
};

struct ModelSpec {
  ModelType type = ModelType::kMlp;
  std::string own;            // of kOwn: which
  std::int64_t classes = 10;  // mlp, resnet: labels run from 0 to classes - 1
  double dropout = 0;
  std::string weights;  // to start from: a safetensors file, a checkpoint or a run; empty: random
  MemoryFormat memory_format = MemoryFormat::kAuto;
  MlpSpec mlp;        // only the one that `type` names means something;
  ResnetSpec resnet;  // in the job file they stand in `model` itself
  TransformerSpec transformer;
  LlamaSpec llama;
  MoeSpec moe;
};

struct LoraSpec {         // low-rank adapters, which are then all that is trained
  std::int64_t rank = 0;  // 0: none
  double alpha = 16;      // what they add is multiplied by alpha / rank
  double dropout = 0;
  std::vector<std::string> target_modules = {"*"};  // patterns (base/glob.h) for <block>.<layer>
};

struct AugmentSpec {
  std::int64_t crop_padding = 0;  // pixels; 0: no random crop
  bool flip = false;              // left-right, every second sample
};

struct ImagesSpec {        // of type images
  std::int64_t size = 64;  // pixels a side
  ImageMode mode = ImageMode::kRgb;
};

struct CsvSpec {       // of type csv
  std::string target;  // column of classes; empty: the last
  std::vector<std::string> ignore;
  std::string delimiter;  // one character; empty: a tab in .tsv files, or else a comma
  bool header = true;
  DecimalMark decimal = DecimalMark::kPoint;
  std::vector<std::string> missing;  // words for it; none: the usual ones
};

struct DataSpec {
  DataType type = DataType::kIdx;
  std::string own;   // of kOwn: which
  std::string path;  // a folder (idx, images) or a file (csv, text); of kOwn perhaps none
  std::string validation_path;  // empty: idx: the same folder; others: validation_split of `path`
  std::string train_images = "train-images-idx3-ubyte";  // .gz is tried too
  std::string train_labels = "train-labels-idx1-ubyte";
  std::string validation_images = "t10k-images-idx3-ubyte";
  std::string validation_labels = "t10k-labels-idx1-ubyte";
  std::int64_t context_length = 128;  // bytes in one sample of text
  double validation_split = 0.05;     // share that is held out; text: its end
  bool shuffle = true;
  ImagesSpec images;
  CsvSpec csv;
  AugmentSpec augment;
  std::vector<double> mean;             // per channel, of values in [0, 1]; empty: no normalisation
  std::vector<double> std;              // as many as `mean`
  std::vector<std::string> transforms;  // own ones
  std::int64_t loader_threads = 1;
  std::int64_t prefetch_batches = 2;
  std::string cache = "auto";  // a folder, auto or none
};

struct LossScaleSpec {  // the rule of PyTorch's GradScaler
  double init_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;  // steps
  double min_scale = 1;
};

// global_batch_size, virtual_workers, micro_batch_size and gradient_accumulation_steps agree:
// micro * accumulation = the samples of the largest slice = ceil(global / virtual_workers).
struct TrainingSpec {
  std::optional<std::int64_t> epochs;  // one of the two is set; with both, the first reached ends
  std::optional<std::int64_t> max_steps;  // the training
  std::int64_t global_batch_size = 128;
  std::int64_t micro_batch_size = 16;
  std::int64_t gradient_accumulation_steps = 1;
  std::int64_t virtual_workers = 8;
  TrainingMode mode = TrainingMode::kOrdered;
  std::optional<std::int64_t> lanes;  // unset: the cores of the worker
  Isa isa = Isa::kAuto;
  double max_grad_norm = 0;         // 0: no clipping
  std::string loss{kCrossEntropy};  // or one of the program's own
  double label_smoothing = 0;       // in training; evaluations take the plain loss
  bool sync_batch_norm = false;     // by the statistics of the whole batch, not of a slice
  std::vector<std::string> freeze;  // patterns (base/glob.h) for parameters that stay as they are
  Precision precision = Precision::kF32;
  Precision reduce_precision = Precision::kF32;  // in which gradients are summed
  LossScaleSpec loss_scale;                      // with fp16
  std::vector<std::string> recompute;            // patterns for blocks that backward computes again
};

// Workers along each axis of the grid that they are (layout/mesh.h).
struct MeshSpec {
  std::int64_t replicate = 1;
  std::int64_t pipeline = 1;
  std::int64_t shard = 1;
  std::int64_t expert = 1;
  std::int64_t context = 1;
  std::int64_t tensor = 1;
};

// Blocks that are put on a stage by hand: the first entry that matches a block's name has it.
struct PlacedBlocks {
  std::string match;  // a pattern (base/glob.h)
  std::int64_t stage = 0;
};

struct StrategySpec {
  StrategyType type = StrategyType::kData;
  MeshSpec mesh;  // of every type but auto; in the job file it is for hybrid
  // sharded, and likewise what follows where the mesh has such an axis:
  std::int64_t zero_stage = 1;  // what workers hold in shards: 1 the optimizer's state, 2 gradients
  // pipeline:
  std::int64_t stages = 1;  // of a replica; where a job does not say, as many as workers
  PipelineSchedule schedule = PipelineSchedule::k1F1B;
  std::int64_t chunks_per_stage = 1;
  std::vector<std::int64_t> blocks;     // of each chunk, in order; empty: by measured cost
  std::vector<PlacedBlocks> placement;  // the same by names; where they are known, `blocks` follows
  bool optimizer_first = false;         // a stage updates before it knows the norms of all
  // tensor:
  std::int64_t tensor = 1;  // workers of a replica; where a job does not say, all
  bool sequence_parallel = false;
  // context:
  std::int64_t context = 1;  // workers of a replica; where a job does not say, all
  ContextAttention attention = ContextAttention::kRing;  // by default ulysses where heads allow it
  // expert:
  std::int64_t expert = 1;  // workers of a replica; where a job does not say, all
  // sharded, pipeline, tensor, expert:
  std::int64_t redundancy = 0;  // copies of a worker's part of the state in a neighbour's memory

  // Whether each rank has a part of the state or of the work that is its own: all of them are
  // needed, and whoever comes anew takes the place of one that died.
  bool keeps_ranks() const noexcept {
    return core() != StrategyType::kData && type != StrategyType::kAuto;
  }
  // Those that compute each slice together, once `auto` is decided.
  std::int64_t workers_of_replica() const noexcept {
    return mesh.pipeline * mesh.context * mesh.tensor;
  }
  // What cuts the model, or shards what belongs to it: of hybrid one of the other types.
  StrategyType core() const noexcept {
    if (type != StrategyType::kHybrid) return type;
    if (mesh.pipeline > 1) return StrategyType::kPipeline;
    if (mesh.expert > 1) return StrategyType::kExpert;
    if (mesh.tensor > 1) return StrategyType::kTensor;
    if (mesh.context > 1) return StrategyType::kContext;
    return mesh.shard > 1 ? StrategyType::kSharded : StrategyType::kData;
  }
};

// Parameters with a rate or a decay of their own: the first group that matches a name has it.
struct ParameterGroup {
  std::vector<std::string> match;  // patterns (base/glob.h) for names of parameters
  double learning_rate_factor = 1;
  std::optional<double> weight_decay;  // unset: as for the others
};

struct OptimizerSpec {
  OptimizerType type = OptimizerType::kAdamW;
  double learning_rate = 0.001;  // the peak, before scale_with_batch; by default as the type has it
  double momentum = 0.9;         // sgd, lars
  bool nesterov = false;         // sgd
  double weight_decay = 0;
  bool decoupled_weight_decay = false;  // sgd; always true for adamw and lamb, false for lars
  double beta1 = 0.9;                   // adamw, lamb, as the next two
  double beta2 = 0.999;
  double epsilon = 1e-8;             // 1e-6 by default for lamb
  double trust_coefficient = 0.001;  // lars
  bool decay_norm_and_bias = false;  // decay and trust ratios for 1-dimensional parameters too
  std::vector<ParameterGroup> groups;
  OffloadKind offload = OffloadKind::kNone;  // of its state
  std::string offload_folder;                // of kDisk; empty: the run's
};

struct EmaSpec {         // an exponential moving average of the weights
  double decay = 0;      // 0: none
  bool warmup = true;    // the decay rises from 2/11 on to its value
  bool evaluate = true;  // the average, not the trained weights
  bool keeps() const noexcept { return decay > 0; }
};

struct ScheduleSpec {
  ScheduleType type = ScheduleType::kConstant;
  Interval warmup = Interval::of_steps(0);  // steps, epochs or a share of the training
  double final_ratio = 0;                   // learning rate at the end / at the peak
  BatchScaling scale_with_batch = BatchScaling::kNone;
  std::int64_t base_batch_size = 128;  // the global batch for which learning_rate is meant
};

struct EvaluationSpec {
  Interval every = Interval::of_epochs(1);  // never: none at all, not even at the end
  std::int64_t batch_size = 256;
  MetricKind metric = MetricKind::kLoss;  // what "best" means; accuracy by default for idx data
  std::string own_metric;                 // of kOwn: which; it is among `metrics`
  bool own_is_higher = false;             // of kOwn: a higher value is a better one
  std::vector<std::string> metrics;       // own ones
  std::int64_t early_stop_patience = 0;   // evaluations without progress; 0: off
  bool keep_best = true;

  bool higher_is_better() const noexcept {
    return metric == MetricKind::kAccuracy || (metric == MetricKind::kOwn && own_is_higher);
  }
};

struct CheckpointSpec {
  Interval every = Interval::of_epochs(1);
  std::int64_t keep = 3;  // the newest; the best one is kept besides
  bool at_end = true;
  bool asynchronous = true;
};

struct WorkersSpec {
  std::int64_t count = 1;        // that compute
  std::vector<HostSlots> hosts;  // where they are started; none: on the launcher's
  std::int64_t standbys = 0;     // besides, to take the place of one that dies
  std::int64_t min_workers = 1;  // the job goes on while so many are left
  bool majority = false;         // and more than half of each generation
  std::int64_t max_workers = 1;  // with those of other hosts; by default processes()
  std::string listen;            // host:port where those join; empty: none
  std::int64_t max_restarts = 3;
  Duration restart_window = std::chrono::hours(1);  // in which only so many count
  Duration join_timeout = std::chrono::seconds(60);
  Duration heartbeat_timeout = std::chrono::seconds(10);

  std::int64_t processes() const noexcept { return count + standbys; }
  // Whether the job outlives a worker.
  bool elastic() const noexcept {
    return max_workers > processes() ||
           (processes() > 1 && (min_workers < processes() || max_restarts > 0));
  }
};

// A notice that this host is wanted back: of a cloud, a scheduler, a script. Empty: not asked.
struct PreemptionSpec {
  std::string file;     // is there
  std::string command;  // ends with 0
  std::string url;      // answers 200, and not that there is none
  Duration every = std::chrono::seconds(5);
};

struct AutoscalingSpec {  // between workers.min_workers and workers.max_workers
  AutoscalingPolicy policy = AutoscalingPolicy::kNone;
  Duration every = std::chrono::seconds(30);
  double min_gain = 0.5;  // throughput: of the last worker, in those of an average one
  std::string schedule;   // schedule: see job/daily.h
  std::string file;       // probe: who answers with the number of workers
  std::string command;
  std::string url;
  std::string request;  // a command that has workers of other hosts started; empty: none
  Duration request_timeout = std::chrono::minutes(1);
  Duration request_every = std::chrono::minutes(5);  // at most so often
  // So long workers that were asked for and have not come count as coming.
  Duration request_patience = std::chrono::minutes(30);

  // Else their number is fixed, or others start those that are wanted.
  bool starts_workers() const noexcept {
    return policy != AutoscalingPolicy::kNone && request.empty();
  }
};

struct StragglersSpec {
  Duration compare_every = std::chrono::seconds(1);
  bool rebalance = true;     // share slices out by measured speed
  double tell_factor = 1.5;  // by which a worker is slower than the others when it is named
  double evict_factor = 0;   // or is told to go; 0: never
  bool backup = false;       // who waits computes slices for those who are late
};

struct ReplicasSpec {
  Interval compare_every = Interval::of_steps(100);
  Interval compare_gradients = Interval::never();
};

struct CommunicationSpec {
  EngineKind engine = EngineKind::kNative;
  TransportKind transport = TransportKind::kAuto;
  Algorithm algorithm = Algorithm::kAuto;
  Algorithm inner_algorithm = Algorithm::kAuto;  // of kHierarchical
  Algorithm outer_algorithm = Algorithm::kAuto;
  Duration timeout = std::chrono::seconds(30);  // of one collective
  Bytes bucket_size{1 << 20};
  Bytes first_bucket_size{256 << 10};
};

struct LoggingSpec {
  std::int64_t logging_steps = 10;
  LogStyle format = LogStyle::kText;
};

// An endpoint at which Prometheus fetches what the run measures.
struct PrometheusSpec {
  std::string listen;       // host:port; empty: none
  std::string token_file;   // holds what a scraper must show; empty: nothing
  std::string certificate;  // PEM files, of https
  std::string key;
};

// A tracking server of MLflow's that gets what the run measures.
struct MlflowSpec {
  std::string tracking_uri;  // http:// or https://, without a slash at its end; empty: none
  std::string experiment;    // default: the job's name
  std::string run_name;      // empty: that of the run's folder
  std::int64_t logging_steps = 10;
  std::string token_file;  // holds what the server asks for; empty: see MLFLOW_TRACKING_… variables
  std::string
      certificate;  // PEM, of the authority that vouches for the server; empty: the system's
};

struct TraceSpec {  // a timeline of all workers in the run's folder
  bool enabled = false;
  std::int64_t steps = 1000;  // of each worker, from where it begins; 0: all
};

struct GenerateSpec {  // a sample of text at the end of a language model's job
  std::string prompt;
  std::int64_t length = 0;  // bytes; 0: none
  double temperature = 0.8;
};

struct JobSpec {
  std::string name;  // default: the stem of the job file's name
  std::uint64_t seed = 0;
  DeviceKind device = DeviceKind::kAuto;
  std::string run_folder = "runs";
  ModelSpec model;
  LoraSpec lora;
  DataSpec data;
  TrainingSpec training;
  StrategySpec strategy;
  OptimizerSpec optimizer;
  EmaSpec ema;
  ScheduleSpec schedule;
  EvaluationSpec evaluation;
  CheckpointSpec checkpoint;
  WorkersSpec workers;
  AutoscalingSpec autoscaling;
  PreemptionSpec preemption;
  StragglersSpec stragglers;
  ReplicasSpec replicas;
  CommunicationSpec communication;
  LoggingSpec logging;
  PrometheusSpec prometheus;
  MlflowSpec mlflow;
  TraceSpec trace;
  GenerateSpec generate;
  OptionValues options;  // of own components

  // Whether there is an accuracy: outputs are logits of classes.
  bool classifies() const noexcept { return training.loss == kCrossEntropy; }
  // Whether workers keep what they have summed of a step, so that the others can finish it. Slices
  // that meet at batch norms are computed all at once or not at all.
  bool keeps_sums() const noexcept {
    return workers.elastic() && !strategy.keeps_ranks() && !training.sync_batch_norm;
  }
};

}  // namespace muster::job
