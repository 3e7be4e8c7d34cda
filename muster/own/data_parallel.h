#pragma once
// DataParallel: synchronous data parallelism in a training loop of a user's own, with its own
// optimizer. After backward() each rank has the mean of all ranks' gradients (Li et al., "PyTorch
// Distributed", VLDB 2020: buckets in the order of backward, reduced while it goes on).
//
//   auto world = muster::join();
//   muster::DataParallel ddp(*model, world);
//   …
//   loss.backward();   // of this rank's samples
//   optimizer.step();
//
// One thread. What goes wrong, here or between ranks, is thrown by backward() as Failure, and names
// the culprit; the gradients are then of no use, and the world has come to its end on all ranks.
// Gradients are summed along a fixed tree over ranks: the same number of them gives the same bits.

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>

#include "muster/app/rendezvous/join.h"
#include "muster/base/clock.h"

namespace muster {

using app::Failure;
using app::join;
using app::World;

struct DataParallelOptions {
  std::int64_t bucket_bytes = std::int64_t{4} << 20;
  // A parameter that has no part in the loss of any rank keeps the gradient that it has; of one
  // that only some have used, the others' is zero. Otherwise a mistake.
  bool allow_unused = false;
  // How long a backward() waits for the slowest rank, which may be evaluating. Of a rank that has
  // died it is told at once.
  Duration timeout = std::chrono::minutes(10);
};

class DataParallel {
 public:
  // Every rank begins with rank 0's parameters and buffers. `module` outlives this; its parameters
  // are dense, f32 and on the CPU, and stay the same ones. Throws Failure where ranks have
  // different models.
  DataParallel(torch::nn::Module& module, const World& world, DataParallelOptions options = {});
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  // While it lives gradients stay this rank's own and add up, to be reduced by the first backward()
  // after it: gradient accumulation without traffic.
  class NoSync {
   public:
    explicit NoSync(bool& syncs) : syncs_(syncs) { syncs_ = false; }
    ~NoSync() { syncs_ = true; }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    bool& syncs_;
  };
  [[nodiscard]] NoSync no_sync();

 private:
  class Reducer;
  std::shared_ptr<Reducer> reducer_;
};

}  // namespace muster
