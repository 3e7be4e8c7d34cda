// The loop of parallel.cc with its data in a shuffled order, every sample once in an epoch,
// gradients accumulated over two parts of each batch, and checkpoints from which it goes on.

#include <muster/checkpointer.h>
#include <muster/join.h>
#include <muster/sampler.h>
#include <torch/torch.h>

#include <cstdio>

constexpr std::int64_t kSamples = 960, kBatch = 96, kSteps = 40;

int main(int argc, char** argv) {
  torch::manual_seed(1);
  const auto inputs = torch::rand({kSamples, 8});
  const auto targets = torch::sin(inputs.sum(1, true));
  torch::nn::Sequential model(torch::nn::Linear(8, 32), torch::nn::Tanh(),
                              torch::nn::Linear(32, 1));
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));

  // On all ranks, for each goes on from it; rank 0 alone saves.
  muster::Checkpointer checkpoints(muster::system_files(), muster::system_clock(),
                                   argc > 1 ? argv[1] : "checkpoints");
  const auto tensors = muster::tensors_of(*model);
  const auto loaded = checkpoints.load_newest_whole({muster::whole_slices(tensors), {}});
  // Only where there is none it begins anew: those of another model are not written over.
  if (!loaded && loaded.error().code != muster::ErrorCode::kNotFound)
    throw muster::Failure(loaded.error());
  std::int64_t step = loaded ? muster::to_int(loaded->loaded.step) : 0;

  const auto world = muster::join();
  muster::DataParallel ddp(*model, world);
  const muster::Sampler sampler(/*seed=*/7, kSamples, /*shuffle=*/true);
  const auto backward = [&](std::int64_t part) {  // of this rank's part of a half of the batch
    const std::int64_t size = kBatch / 2 / world.size();
    std::vector<std::int64_t> rows;
    for (std::int64_t i = 0; i < size; ++i) {
      const std::int64_t at = step * kBatch + (part * world.size() + world.rank()) * size + i;
      rows.push_back(sampler.index(at / kSamples, at % kSamples));
    }
    const auto chosen = torch::tensor(rows);
    auto loss = torch::mse_loss(model->forward(inputs.index_select(0, chosen)),
                                targets.index_select(0, chosen));
    (loss / 2).backward();
  };
  for (; step < kSteps; ++step) {
    optimizer.zero_grad();
    {
      const auto own = ddp.no_sync();
      backward(0);
    }
    backward(1);
    optimizer.step();
    if ((step + 1) % 10 == 0 && world.rank() == 0) {
      const auto saved = checkpoints.save({.step = muster::Step{step + 1}, .model = tensors});
      if (!saved) throw muster::Failure(saved.error());
    }
  }
  const torch::NoGradGuard no_grad;
  const double loss = torch::mse_loss(model->forward(inputs), targets).item<double>();
  if (world.rank() == 0) std::printf("step %ld: loss %.9g\n", step, loss);
}
