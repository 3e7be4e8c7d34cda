#include "muster/own/reducer.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <functional>
#include <span>
#include <utility>

#include "muster/parallel/tensor_bridge.h"

namespace muster {
namespace {

constexpr std::int64_t kFirstBucket = std::int64_t{1} << 20;  // bytes: starts the traffic early
constexpr std::size_t kNamesTold = 5;

class AfterGradient final : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit AfterGradient(std::function<void()> then) : then_(std::move(then)) {}
  void operator()(const torch::autograd::Variable&) override { then_(); }

 private:
  const std::function<void()> then_;
};

void check(const Status& status) {
  if (!status) throw Failure(status.error());
}

}  // namespace

DataParallel::Reducer::Reducer(torch::nn::Module& module, World world, DataParallelOptions options)
    : module_(module), world_(std::move(world)), options_(options) {
  check(own::check_same_model(module, world_));
  check(own::copy_from_first(module, world_));
  parameters_ = own::trained_parameters(module);
  if (parameters_.empty())
    throw Failure(fail(ErrorCode::kInvalid,
                       "[data_parallel] the model has no parameter that requires a gradient"));
  make_buckets();
}

// What is under way writes into the buckets.
DataParallel::Reducer::~Reducer() {
  if (works_.empty()) return;
  world_.communicator().abort(
      fail(ErrorCode::kCancelled, "[data_parallel] a backward() was not brought to its end"));
  static_cast<void>(comm::wait_for_all(works_));
}

// Backward finds the last parameters first.
void DataParallel::Reducer::make_buckets() {
  std::vector<std::int64_t> counts;
  for (auto parameter = parameters_.rbegin(); parameter != parameters_.rend(); ++parameter)
    counts.push_back(parameter->tensor.numel());
  layout_ = layout::plan_buckets(
      counts, {std::min(kFirstBucket, options_.bucket_bytes), options_.bucket_bytes});
  for (const std::int64_t floats : layout_.sizes) {
    auto memory = world_.communicator().allocate(static_cast<std::size_t>(floats) * sizeof(float));
    if (!memory) throw Failure(memory.error());
    buckets_.push_back(std::move(*memory));
  }
  tree_ = std::make_shared<const comm::SumTree>(world_.size(), world_.size());
  used_.assign(parameters_.size(), 0);
  begin_again();
}

void DataParallel::Reducer::begin_again() {
  ready_.assign(parameters_.size(), false);
  missing_ = layout_.slots_in;
  unsent_ = parameters_.size();
  pass_ = -1;
}

void DataParallel::Reducer::listen() {
  for (std::size_t p = 0; p < parameters_.size(); ++p)
    torch::autograd::impl::set_post_acc_grad_hooks(
        parameters_[p].tensor, std::make_unique<AfterGradient>([weak = weak_from_this(), p] {
          if (const auto self = weak.lock()) self->on_gradient(p);
        }));
}

void DataParallel::Reducer::leave() {
  for (const own::NamedParameter& parameter : parameters_)
    torch::autograd::impl::set_post_acc_grad_hooks(parameter.tensor, nullptr);
  world_.set_last_word(fmt::format("after {} backward() with synchronisation", passes_));
}

// ---- a pass

void DataParallel::Reducer::on_gradient(std::size_t parameter) {
  used_[parameter] = 1;
  if (!syncs) return;
  begin_pass();
  if (ready_[parameter])
    give_up(ErrorCode::kUnsupported,
            fmt::format("parameter {} got its gradient twice in one backward()",
                        parameters_[parameter].name));
  ready_[parameter] = true;
  --missing_[static_cast<std::size_t>(slot_of(parameter).bucket)];
  while (works_.size() < buckets_.size() && missing_[works_.size()] == 0) submit_next();
}

void DataParallel::Reducer::begin_pass() {
  const int task = torch::autograd::get_current_graph_task_id();
  if (task == pass_) return;
  if (pass_ != -1)
    give_up(ErrorCode::kInvalid,
            "another one threw in its midst, or goes on around it; other ranks have its gradients, "
            "so this loop cannot go on");
  pass_ = task;
  check_unchanged();
  torch::autograd::Engine::get_default_engine().queue_callback(
      [self = shared_from_this()] { self->finish(); });
}

// Gradients of tensors that have come later would stay this rank's own.
void DataParallel::Reducer::check_unchanged() {
  const auto now = own::trained_parameters(module_);
  const auto is_same = [](const own::NamedParameter& one, const own::NamedParameter& other) {
    return one.tensor.is_same(other.tensor) && one.name == other.name;
  };
  const auto [was, is] = std::ranges::mismatch(parameters_, now, is_same);
  const char* advice = "make DataParallel after the last change of the model";
  if (was != parameters_.end() || is != now.end())
    give_up(ErrorCode::kInvalid,
            fmt::format("the model was changed after it was wrapped: {} where {} was; {}",
                        is == now.end() ? "nothing" : own::describe(*is),
                        was == parameters_.end() ? "nothing" : own::describe(*was), advice));
  for (std::size_t p = 0; p < now.size(); ++p)
    if (now[p].tensor.numel() != place_of(p).numel() || now[p].tensor.scalar_type() != at::kFloat)
      give_up(ErrorCode::kInvalid,
              fmt::format("parameter {} had {} elements of f32 when it was wrapped; {}",
                          own::describe(now[p]), place_of(p).numel(), advice));
}

const layout::BucketSlot& DataParallel::Reducer::slot_of(std::size_t parameter) const {
  return layout_.slots[parameters_.size() - 1 - parameter];
}

at::Tensor DataParallel::Reducer::place_of(std::size_t parameter) const {
  const layout::BucketSlot& slot = slot_of(parameter);
  const auto& memory = *buckets_[static_cast<std::size_t>(slot.bucket)];
  return parallel::tensor_over(
      {DType::kF32,
       {slot.count},
       memory.subspan(static_cast<std::size_t>(slot.offset) * sizeof(float),
                      static_cast<std::size_t>(slot.count) * sizeof(float))});
}

// All ranks reduce the buckets in one order.
void DataParallel::Reducer::submit_next() {
  const at::NoGradGuard no_grad;
  const std::size_t bucket = works_.size();
  for (std::int32_t slot = 0; slot < layout_.slots_in[bucket]; ++slot) {
    const std::size_t parameter = --unsent_;
    place_of(parameter).copy_(contribution(parameter));
  }
  const comm::AllReduce sum{.buffer = {DType::kF32, {1, layout_.sizes[bucket]}, *buckets_[bucket]},
                            .reduce = comm::Reduce::kSum,
                            .tree = tree_};
  works_.push_back(world_.communicator().submit(
      sum, {.timeout = options_.timeout, .label = fmt::format("gradients/{}", bucket)}));
}

at::Tensor DataParallel::Reducer::contribution(std::size_t parameter) {
  const at::Tensor& gradient = parameters_[parameter].tensor.grad();
  if (!gradient.defined()) return at::zeros({parameters_[parameter].tensor.numel()});
  if (gradient.layout() != at::kStrided)
    give_up(ErrorCode::kUnsupported,
            fmt::format("the gradient of {} is sparse; DataParallel reduces dense ones",
                        parameters_[parameter].name));
  return gradient.reshape(-1);
}

// At the end of backward.
void DataParallel::Reducer::finish() {
  if (!options_.allow_unused) check_all_used();
  while (works_.size() < buckets_.size()) submit_next();
  if (options_.allow_unused) settle_unused();
  wait();
  for (std::size_t p = 0; p < parameters_.size(); ++p)
    if (used_[p] != 0) give_back(p);
  used_.assign(parameters_.size(), 0);
  begin_again();
  ++passes_;
}

void DataParallel::Reducer::check_all_used() {
  std::string names;
  std::size_t unused = 0;
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    if (used_[p] != 0) continue;
    if (++unused <= kNamesTold) names += (names.empty() ? "" : ", ") + parameters_[p].name;
  }
  if (unused == 0) return;
  if (unused > kNamesTold) names += ", …";
  give_up(ErrorCode::kInvalid,
          fmt::format("{} of {} parameters had no part in this loss: {}. Freeze them with "
                      "requires_grad_(false) before DataParallel, or set "
                      "DataParallelOptions::allow_unused",
                      unused, parameters_.size(), names));
}

// From now on used_ is what any rank has used.
void DataParallel::Reducer::settle_unused() {
  const comm::AllReduce any{.buffer = view_of(std::span(used_)), .reduce = comm::Reduce::kMax};
  works_.push_back(
      world_.communicator().submit(any, {.timeout = options_.timeout, .label = "used parameters"}));
}

void DataParallel::Reducer::wait() {
  const auto works = std::exchange(works_, {});
  const Status status = comm::wait_for_all(works);
  if (status) return;
  throw Failure(world_.explain(status.error(),
                               fmt::format("in backward() {}, reducing gradients", passes_ + 1)));
}

void DataParallel::Reducer::give_back(std::size_t parameter) {
  const at::NoGradGuard no_grad;
  const at::Tensor& tensor = parameters_[parameter].tensor;
  at::Tensor& gradient = tensor.mutable_grad();
  if (!gradient.defined()) gradient = at::empty_like(tensor);
  gradient.copy_(place_of(parameter).view(tensor.sizes()));
  gradient.div_(world_.size());
}

// Nobody writes to the buckets any more when this throws, and the other ranks know why.
void DataParallel::Reducer::give_up(ErrorCode code, const std::string& what) {
  const Error why = fail(code,
                         fmt::format("[data_parallel] rank {}, in backward() {}: {}", world_.rank(),
                                     passes_ + 1, what),
                         Rank{world_.rank()});
  world_.fail(why);
  static_cast<void>(comm::wait_for_all(std::exchange(works_, {})));
  throw Failure(why);
}

}  // namespace muster
