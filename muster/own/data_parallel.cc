#include "muster/own/data_parallel.h"

#include "muster/own/reducer.h"

namespace muster {

DataParallel::DataParallel(torch::nn::Module& module, const World& world,
                           DataParallelOptions options)
    : reducer_(std::make_shared<Reducer>(module, world, options)) {
  reducer_->listen();
}

DataParallel::~DataParallel() { reducer_->leave(); }

DataParallel::NoSync DataParallel::no_sync() { return NoSync(reducer_->syncs); }

}  // namespace muster
