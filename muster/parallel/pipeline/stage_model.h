#pragma once
// The blocks that one rank of a pipeline holds, and their forward and backward passes, one
// micro-batch and one chunk (a run of neighbouring blocks) at a time. Between two chunks the
// autograd graph is cut: what goes on is the activation, what comes back its gradient. The same
// operations on the same values as in one piece, so the same bits. One thread.

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "muster/layout/partition.h"
#include "muster/models/model.h"
#include "muster/parallel/gradient_sink.h"
#include "muster/parallel/lane.h"
#include "muster/parallel/pipeline/split_backward.h"

namespace muster::parallel {

class StageModel {
 public:
  // chunks[c]: of the blocks of `part`; together all of them, in order.
  StageModel(std::unique_ptr<models::Model> part, layout::Partition chunks,
             models::Compute compute);
  ~StageModel();

  models::Model& model() noexcept { return *model_; }
  const models::Model& model() const noexcept { return *model_; }

  // The parameters that this rank updates, in the model's order. Slots are as LaneModel has them,
  // over these.
  const std::vector<std::size_t>& owned() const noexcept { return owned_; }
  std::vector<std::int64_t> slot_counts() const;
  void use(GradientSink& sink) noexcept { sink_ = &sink; }

  // `micro`: numbers the micro-batches of a step. Returns the activation for the next chunk. What
  // backward needs is kept until then.
  at::Tensor forward(std::size_t chunk, std::size_t micro, const at::Tensor& input,
                     const LanePass& pass);
  // The last chunk of the pipeline: instead of an activation the loss.
  struct Loss {
    double loss = 0;  // both weighted as the pass says
    double correct = 0;
  };
  Loss forward_loss(std::size_t chunk, std::size_t micro, const at::Tensor& input,
                    const at::Tensor& targets, const LanePass& pass);
  // After the last forward of `micro` on this rank: adds slot 0, as LaneModel does; zeros for the
  // loss where another rank has it.
  void add_extras(std::size_t micro, const Loss& loss, std::span<const float> notes,
                  const LanePass& pass);

  // `gradient`: of the activation; none for a loss. Adds the gradients of the chunk's parameters
  // and returns that of its input, none for tokens or images.
  at::Tensor backward(std::size_t chunk, std::size_t micro, const at::Tensor& gradient,
                      const LanePass& pass);

  // The same in two parts: the second one adds what the first has left, which is what can wait
  // (later_). A chunk whose input has no gradient does all in the first.
  at::Tensor backward_input(std::size_t chunk, std::size_t micro, const at::Tensor& gradient,
                            const LanePass& pass);
  void backward_weight(std::size_t chunk, std::size_t micro, const LanePass& pass);

  // Evaluation: no graph, nothing kept.
  at::Tensor infer(std::size_t chunk, const at::Tensor& input);

  // A unit without samples adds zeros everywhere.
  void add_nothing(std::int32_t unit, std::span<const float> notes);

  // Weights tied to a block elsewhere (models::Parameter::borrowed): what backward found for them,
  // which their owner has to add before its own backward pass.
  at::Tensor take_borrowed(std::size_t micro, std::size_t parameter);
  void add_to_owned(std::size_t micro, std::size_t parameter, at::Tensor gradient) {
    add_partial(parameter, micro, std::move(gradient));
  }

  // After a step that failed: forgets what was kept.
  void clear();

 private:
  struct Run {  // of one chunk over one micro-batch, between forward and backward
    at::Tensor input;
    at::Tensor output;
  };
  using Key = std::pair<std::size_t, std::size_t>;

  at::Tensor run(std::size_t chunk, at::Tensor activation, models::PassContext& context);
  at::Tensor run_training(std::size_t chunk, std::size_t micro, const at::Tensor& input,
                          const LanePass& pass, at::Tensor& leaf);
  Run take_run(std::size_t chunk, std::size_t micro);
  static at::Tensor seed_of(const Run& run, const at::Tensor& gradient, const LanePass& pass);
  void begin_backward(std::size_t chunk, std::size_t micro, const LanePass& pass);
  void found(std::size_t parameter, at::Tensor gradient);
  void found(const std::vector<std::size_t>& parameters, std::vector<at::Tensor> gradients);
  void end_backward(const std::vector<std::size_t>& parameters);
  std::vector<at::Tensor> tensors_of(const std::vector<std::size_t>& parameters) const;
  void add_partial(std::size_t parameter, std::size_t micro, at::Tensor gradient);
  void deliver(std::size_t parameter, const at::Tensor& gradient, const LanePass& pass);
  void deliver_zeros(std::size_t parameter, const LanePass& pass);
  std::vector<std::size_t> blocks_using(std::size_t parameter) const;
  std::size_t chunk_of(std::size_t block) const;
  void find_uses();

  std::unique_ptr<models::Model> model_;
  const layout::Partition chunks_;
  const models::Compute compute_;
  std::vector<std::size_t> owned_;  // parameters
  std::vector<std::int32_t> slot_;  // by parameter; of owned ones
  std::vector<std::size_t> home_;   // by parameter: the chunk after whose backward it is whole
  struct Uses {                     // parameters that a chunk uses
    std::vector<std::size_t> now;   // their gradients are wanted by others, or are found in passing
    std::vector<std::size_t> later;  // the others: those of a split backward's second part
  };
  std::vector<Uses> uses_;  // by chunk
  GradientSink* sink_ = nullptr;
  std::map<Key, Run> runs_;                                    // by chunk and micro-batch
  std::map<Key, PostponedGradients> postponed_;                // the same
  std::map<std::size_t, std::vector<at::Tensor>> statistics_;  // by micro-batch
  std::map<Key, at::Tensor> partial_;  // by parameter and micro-batch: gradients of other uses
  std::vector<float> floats_;
  struct Backward {  // the one that is running
    std::size_t chunk = 0;
    std::size_t micro = 0;
    const LanePass* pass = nullptr;
    std::vector<bool> delivered;  // by parameter
  } backward_;
};

}  // namespace muster::parallel
