#pragma once
// The words of the job file for the enumerations of spec.h.

#include <string_view>

#include "muster/job/spec.h"

namespace muster::job {

template <class E>
struct EnumName {
  E value;
  std::string_view name;
};

template <class E>
struct EnumNames;  // kAll: every value once, in the order in which help shows them

template <>
struct EnumNames<DeviceKind> {
  static constexpr EnumName<DeviceKind> kAll[] = {
      {DeviceKind::kAuto, "auto"}, {DeviceKind::kCpu, "cpu"}, {DeviceKind::kCuda, "cuda"}};
};
template <>
struct EnumNames<ModelType> {
  static constexpr EnumName<ModelType> kAll[] = {{ModelType::kMlp, "mlp"},
                                                 {ModelType::kResnet, "resnet"},
                                                 {ModelType::kGpt, "gpt"},
                                                 {ModelType::kLlama, "llama"},
                                                 {ModelType::kMoe, "moe"}};
};
template <>
struct EnumNames<ModelBody> {
  static constexpr EnumName<ModelBody> kAll[] = {{ModelBody::kGpt, "gpt"},
                                                 {ModelBody::kLlama, "llama"}};
};
template <>
struct EnumNames<NormKind> {
  static constexpr EnumName<NormKind> kAll[] = {
      {NormKind::kBatch, "batch"}, {NormKind::kGroup, "group"}, {NormKind::kNone, "none"}};
};
template <>
struct EnumNames<MemoryFormat> {
  static constexpr EnumName<MemoryFormat> kAll[] = {{MemoryFormat::kAuto, "auto"},
                                                    {MemoryFormat::kContiguous, "contiguous"},
                                                    {MemoryFormat::kChannelsLast, "channels_last"}};
};
template <>
struct EnumNames<DataType> {
  static constexpr EnumName<DataType> kAll[] = {{DataType::kIdx, "idx"},
                                                {DataType::kImages, "images"},
                                                {DataType::kCsv, "csv"},
                                                {DataType::kText, "text"}};
};
template <>
struct EnumNames<DecimalMark> {
  static constexpr EnumName<DecimalMark> kAll[] = {{DecimalMark::kPoint, "point"},
                                                   {DecimalMark::kComma, "comma"}};
};
template <>
struct EnumNames<ImageMode> {
  static constexpr EnumName<ImageMode> kAll[] = {{ImageMode::kRgb, "rgb"},
                                                 {ImageMode::kGray, "gray"}};
};
template <>
struct EnumNames<TrainingMode> {
  static constexpr EnumName<TrainingMode> kAll[] = {{TrainingMode::kOrdered, "ordered"},
                                                    {TrainingMode::kFast, "fast"}};
};
template <>
struct EnumNames<Precision> {
  static constexpr EnumName<Precision> kAll[] = {
      {Precision::kF32, "f32"}, {Precision::kBF16, "bf16"}, {Precision::kFP16, "fp16"}};
};
template <>
struct EnumNames<Isa> {
  static constexpr EnumName<Isa> kAll[] = {
      {Isa::kAuto, "auto"}, {Isa::kAvx2, "avx2"}, {Isa::kAvx512, "avx512"}};
};
template <>
struct EnumNames<OptimizerType> {
  static constexpr EnumName<OptimizerType> kAll[] = {{OptimizerType::kSgd, "sgd"},
                                                     {OptimizerType::kAdamW, "adamw"},
                                                     {OptimizerType::kLars, "lars"},
                                                     {OptimizerType::kLamb, "lamb"}};
};
template <>
struct EnumNames<OffloadKind> {
  static constexpr EnumName<OffloadKind> kAll[] = {{OffloadKind::kNone, "none"},
                                                   {OffloadKind::kDisk, "disk"}};
};
template <>
struct EnumNames<ScheduleType> {
  static constexpr EnumName<ScheduleType> kAll[] = {{ScheduleType::kConstant, "constant"},
                                                    {ScheduleType::kLinear, "linear"},
                                                    {ScheduleType::kCosine, "cosine"},
                                                    {ScheduleType::kOneCycle, "one_cycle"}};
};
template <>
struct EnumNames<BatchScaling> {
  static constexpr EnumName<BatchScaling> kAll[] = {{BatchScaling::kNone, "none"},
                                                    {BatchScaling::kLinear, "linear"},
                                                    {BatchScaling::kSqrt, "sqrt"}};
};
template <>
struct EnumNames<MetricKind> {
  static constexpr EnumName<MetricKind> kAll[] = {{MetricKind::kLoss, "loss"},
                                                  {MetricKind::kAccuracy, "accuracy"}};
};
template <>
struct EnumNames<EngineKind> {
  static constexpr EnumName<EngineKind> kAll[] = {{EngineKind::kNative, "native"},
                                                  {EngineKind::kLoopback, "loopback"},
                                                  {EngineKind::kMpi, "mpi"},
                                                  {EngineKind::kNccl, "nccl"},
                                                  {EngineKind::kAuto, "auto"}};
};
template <>
struct EnumNames<TransportKind> {
  static constexpr EnumName<TransportKind> kAll[] = {
      {TransportKind::kAuto, "auto"}, {TransportKind::kShm, "shm"}, {TransportKind::kTcp, "tcp"}};
};
template <>
struct EnumNames<StrategyType> {
  static constexpr EnumName<StrategyType> kAll[] = {
      {StrategyType::kData, "data"},         {StrategyType::kSharded, "sharded"},
      {StrategyType::kPipeline, "pipeline"}, {StrategyType::kTensor, "tensor"},
      {StrategyType::kContext, "context"},   {StrategyType::kExpert, "expert"},
      {StrategyType::kHybrid, "hybrid"},     {StrategyType::kAuto, "auto"}};
};
template <>
struct EnumNames<ContextAttention> {
  static constexpr EnumName<ContextAttention> kAll[] = {{ContextAttention::kUlysses, "ulysses"},
                                                        {ContextAttention::kRing, "ring"}};
};
template <>
struct EnumNames<PipelineSchedule> {
  static constexpr EnumName<PipelineSchedule> kAll[] = {
      {PipelineSchedule::kGPipe, "gpipe"},
      {PipelineSchedule::k1F1B, "1f1b"},
      {PipelineSchedule::kInterleaved, "interleaved"},
      {PipelineSchedule::kZbH1, "zb_h1"},
      {PipelineSchedule::kZbV, "zb_v"}};
};
template <>
struct EnumNames<Algorithm> {
  static constexpr EnumName<Algorithm> kAll[] = {
      {Algorithm::kAuto, "auto"},
      {Algorithm::kRing, "ring"},
      {Algorithm::kBidirectionalRing, "bidirectional_ring"},
      {Algorithm::kTree, "tree"},
      {Algorithm::kDoubleTree, "double_tree"},
      {Algorithm::kHalvingDoubling, "halving_doubling"},
      {Algorithm::kDirect, "direct"},
      {Algorithm::kHierarchical, "hierarchical"},
      {Algorithm::kPairwise, "pairwise"},
      {Algorithm::kBruck, "bruck"}};
};
template <>
struct EnumNames<AutoscalingPolicy> {
  static constexpr EnumName<AutoscalingPolicy> kAll[] = {
      {AutoscalingPolicy::kNone, "none"},
      {AutoscalingPolicy::kThroughput, "throughput"},
      {AutoscalingPolicy::kSchedule, "schedule"},
      {AutoscalingPolicy::kProbe, "probe"}};
};
template <>
struct EnumNames<LogStyle> {
  static constexpr EnumName<LogStyle> kAll[] = {{LogStyle::kText, "text"},
                                                {LogStyle::kJson, "json"}};
};

template <class E>
concept NamedEnum = requires {
  EnumNames<E>::kAll;
};

template <NamedEnum E>
constexpr std::string_view to_string(E value) noexcept {
  for (const auto& [known, name] : EnumNames<E>::kAll) {
    if (known == value) return name;
  }
  return {};
}

}  // namespace muster::job
