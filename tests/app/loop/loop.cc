// A training loop with what its tests ask for:
//   loop FOLDER [accumulate=N] [kill=STEP] [kill0=STEP] [steps1=N]
// Leaves the weights of rank r in FOLDER/r, raw.
//   accumulate: one process computes the parts that N processes would
//   kill, kill0: rank 1, or 0, is killed in the midst of that step
//   steps1: rank 1 has so many batches, the others 30

#include <muster/join.h>
#include <torch/torch.h>

#include <csignal>
#include <cstdint>
#include <fstream>
#include <string>

namespace {

// NAME=N among the arguments, or `usual`.
std::int64_t option(int argc, char** argv, const std::string& name, std::int64_t usual) {
  for (int i = 2; i < argc; ++i)
    if (const std::string word = argv[i]; word.starts_with(name + "="))
      return std::stoll(word.substr(name.size() + 1));
  return usual;
}

}  // namespace

int main(int argc, char** argv) {
  torch::manual_seed(1);
  at::set_num_threads(1);
  const auto inputs = torch::rand({96, 8});
  const auto targets = torch::sin(inputs.sum(1, true));
  torch::nn::Sequential model(torch::nn::Linear(8, 300), torch::nn::Tanh(),
                              torch::nn::Linear(300, 1));
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  const auto world = muster::join();
  muster::DataParallel ddp(*model, world, {.bucket_bytes = 1000});
  const std::int64_t accumulate = option(argc, argv, "accumulate", 1);
  const std::int64_t parts = accumulate * world.size();
  const std::int64_t kill =
      world.rank() < 2 ? option(argc, argv, world.rank() == 1 ? "kill" : "kill0", -1) : -1;
  const std::int64_t steps = world.rank() == 1 ? option(argc, argv, "steps1", 30) : 30;
  const auto backward = [&](std::int64_t part) {
    const auto loss =
        torch::mse_loss(model->forward(inputs.chunk(parts)[part]), targets.chunk(parts)[part]);
    loss.backward();
  };
  for (std::int64_t step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    for (std::int64_t part = 0; part + 1 < accumulate; ++part) {
      const auto own = ddp.no_sync();
      backward(part);
    }
    if (step == kill) std::raise(SIGKILL);
    backward(world.rank() * accumulate + accumulate - 1);
    for (const auto& parameter : model->parameters()) parameter.mutable_grad().div_(accumulate);
    optimizer.step();
  }
  std::ofstream file(std::string(argv[1]) + "/" + std::to_string(world.rank()), std::ios::binary);
  for (const auto& parameter : model->parameters())
    file.write(static_cast<const char*>(parameter.data_ptr()),
               static_cast<std::streamsize>(parameter.nbytes()));
}
