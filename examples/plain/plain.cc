// A small training loop on libtorch.

#include <torch/torch.h>

#include <cstdio>

int main() {
  torch::manual_seed(1);
  const auto inputs = torch::rand({1024, 8});
  const auto targets = torch::sin(inputs.sum(1, true));
  torch::nn::Sequential model(torch::nn::Linear(8, 32), torch::nn::Tanh(),
                              torch::nn::Linear(32, 1));
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.01));
  for (int step = 0; step < 60; ++step) {
    const auto rows = torch::randint(1024, {96}, torch::kLong);
    optimizer.zero_grad();
    torch::mse_loss(model->forward(inputs.index_select(0, rows)), targets.index_select(0, rows))
        .backward();
    optimizer.step();
    const torch::NoGradGuard no_grad;
    const double loss = torch::mse_loss(model->forward(inputs), targets).item<double>();
    std::printf("%d %.6f\n", step, loss);
  }
}
