#pragma once
// Reducer: the gradients of a model on their way to the mean over all ranks, bucket by bucket while
// backward goes on. One thread, that of backward().

#include <cstdint>
#include <memory>
#include <vector>

#include "muster/layout/bucket_layout.h"
#include "muster/own/data_parallel.h"
#include "muster/own/same_model.h"

namespace muster {

class DataParallel::Reducer : public std::enable_shared_from_this<Reducer> {
 public:
  // Collective; throws Failure.
  Reducer(torch::nn::Module& module, World world, DataParallelOptions options);
  ~Reducer();

  void listen();  // from now on gradients are reduced
  void leave();
  bool syncs = true;

 private:
  void make_buckets();
  void on_gradient(std::size_t parameter);
  void begin_pass();
  void check_unchanged();
  void begin_again();
  void submit_next();
  at::Tensor contribution(std::size_t parameter);
  const layout::BucketSlot& slot_of(std::size_t parameter) const;
  at::Tensor place_of(std::size_t parameter) const;
  void finish();
  void check_all_used();
  void settle_unused();
  void give_back(std::size_t parameter);
  void wait();
  [[noreturn]] void give_up(ErrorCode code, const std::string& what);

  torch::nn::Module& module_;
  const World world_;
  const DataParallelOptions options_;
  std::vector<own::NamedParameter> parameters_;
  layout::BucketLayout layout_;  // slots: parameters from the last to the first
  std::vector<comm::Buffer> buckets_;
  std::shared_ptr<const comm::SumTree> tree_;
  std::vector<bool> ready_;            // in this pass
  std::vector<std::int32_t> missing_;  // so many of each bucket are not ready
  std::size_t unsent_ = 0;             // parameters before this one are in no bucket yet
  std::vector<std::int32_t> used_;  // since gradients were reduced last: on this rank, then on any
  std::vector<comm::Work> works_;   // of the buckets of this pass
  std::int64_t passes_ = 0;         // that were reduced
  int pass_ = -1;                   // the number that libtorch gives it; -1: none
};

}  // namespace muster
