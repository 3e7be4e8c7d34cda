#include "muster/own/data_parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "muster/comm/backend/loopback/loopback.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

struct NetImpl : torch::nn::Module {
  explicit NetImpl(double start, int outputs = 1)
      : last(register_module("last", torch::nn::Linear(4, outputs))) {
    for (const at::Tensor& parameter : parameters()) {
      const at::Tensor values = torch::linspace(start, start + 0.5, parameter.numel());
      parameter.detach().copy_(values.reshape(parameter.sizes()));
    }
  }
  at::Tensor forward(const at::Tensor& inputs) { return last(torch::tanh(first(inputs))); }

  torch::nn::Linear first{register_module("first", torch::nn::Linear(3, 4))};
  torch::nn::Linear last;
};
TORCH_MODULE(Net);

using RankBody = std::function<void(const World& world)>;
void on_ranks(std::int32_t size, const RankBody& body) {
  std::vector<std::thread> threads;
  for (const auto& communicator : comm::create_loopback(size))
    threads.emplace_back([&body, communicator] { body(World(communicator)); });
  for (std::thread& thread : threads) thread.join();
}

at::Tensor inputs() { return torch::linspace(-1, 1, 36).reshape({12, 3}); }
at::Tensor loss_of(Net& net, const at::Tensor& rows) {
  return (net->forward(rows) - rows.sum(1, true)).square().mean();
}
at::Tensor part(std::int32_t size, std::int32_t index) { return inputs().chunk(size)[index]; }
at::Tensor part(const World& world) { return part(world.size(), world.rank()); }

std::vector<at::Tensor> gradients(Net& net) {
  std::vector<at::Tensor> found;
  for (const at::Tensor& parameter : net->parameters()) found.push_back(parameter.grad());
  return found;
}

void expect_close(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& wanted) {
  for (std::size_t i = 0; i < wanted.size(); ++i)
    EXPECT_TRUE(at::allclose(found[i], wanted[i], 1e-5, 1e-7)) << i;
}
void expect_equal(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& wanted) {
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(at::equal(found[i], wanted[i])) << i;
}

// One process that computes all of the batch at once.
std::vector<at::Tensor> alone(double times = 1) {
  Net net(0.25);
  (loss_of(net, inputs()) * times).backward();
  return gradients(net);
}
// One process that accumulates the parts, one after the other.
std::vector<at::Tensor> accumulated_alone(std::int32_t parts) {
  Net net(0.25);
  for (std::int32_t i = 0; i < parts; ++i) loss_of(net, part(parts, i)).backward();
  for (const at::Tensor& parameter : net->parameters()) parameter.mutable_grad().div_(parts);
  return gradients(net);
}

// What is thrown; where each rank makes the mistake, one may first hear of another's, in its words.
std::string failure_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "nothing was thrown";
}

// Ranks, and bytes of a bucket: each parameter in one of its own, or all in one.
class DataParallelLoop : public ::testing::TestWithParam<std::tuple<std::int32_t, std::int64_t>> {
 protected:
  std::int32_t size() const { return std::get<0>(GetParam()); }
  DataParallelOptions options() const { return {.bucket_bytes = std::get<1>(GetParam())}; }
};

TEST_P(DataParallelLoop, GradientsAreThoseOfTheWholeBatch) {
  on_ranks(size(), [&](const World& world) {
    Net net(world.rank() == 0 ? 0.25 : 0.75);  // the others begin with the first one's
    DataParallel ddp(*net, world, options());
    for (int step = 0; step < 2; ++step) {
      net->zero_grad();
      loss_of(net, part(world)).backward();
      expect_close(gradients(net), alone());
    }
  });
}

TEST_P(DataParallelLoop, TheSumIsThatOfOneProcessThatAccumulates) {
  if (size() > 3) return;  // a tree over four leaves is no longer one after the other
  on_ranks(size(), [&](const World& world) {
    Net net(0.25);
    DataParallel ddp(*net, world, options());
    loss_of(net, part(world)).backward();
    expect_equal(gradients(net), accumulated_alone(world.size()));
  });
}

TEST_P(DataParallelLoop, AccumulatesWithoutTraffic) {
  on_ranks(size(), [&](const World& world) {
    Net net(0.25);
    DataParallel ddp(*net, world, options());
    {
      const auto own = ddp.no_sync();
      loss_of(net, part(world)).backward();
    }
    if (world.size() > 1) {
      EXPECT_FALSE(at::allclose(net->last->bias.grad(), alone()[1]));
    }
    loss_of(net, part(world)).backward();
    expect_close(gradients(net), alone(2));
  });
}

TEST_P(DataParallelLoop, WithoutItGradientsAreTheirOwnAgain) {
  on_ranks(size(), [&](const World& world) {
    Net net(0.25);
    { DataParallel ddp(*net, world, options()); }
    loss_of(net, part(world)).backward();
    Net same(0.25);
    loss_of(same, part(world)).backward();
    expect_equal(gradients(net), gradients(same));
  });
}

INSTANTIATE_TEST_SUITE_P(RanksAndBuckets, DataParallelLoop,
                         ::testing::Combine(::testing::Values(1, 2, 3, 4),
                                            ::testing::Values(1, 1 << 20)));

TEST(DataParallelUnused, IsAMistakeThatNamesTheParameters) {
  on_ranks(2, [](const World& world) {
    Net net(0.25);
    const auto told = failure_of([&] {
      const DataParallel ddp(*net, world);
      net->first->forward(part(world)).sum().backward();
    });
    EXPECT_THAT(told, HasSubstr("2 of 4 parameters had no part in this loss: last.weight, "
                                "last.bias"));
    EXPECT_THAT(told, HasSubstr("allow_unused"));
  });
}

TEST(DataParallelUnused, MayBeAllowed) {
  on_ranks(2, [](const World& world) {
    Net net(0.25);
    net->register_parameter("idle", torch::zeros({2}));
    DataParallel ddp(*net, world, {.bucket_bytes = 1, .allow_unused = true});
    at::Tensor loss = net->first->forward(part(world)).sum();
    if (world.rank() == 1) loss = loss + net->last->bias.sum();
    loss.backward();
    EXPECT_FALSE(net->parameters().front().grad().defined()) << "of no rank's: as it was";
    EXPECT_FALSE(net->last->weight.grad().defined());
    EXPECT_EQ(net->last->bias.grad().item<float>(), 0.5F) << "of one rank's: zero on the other";
  });
}

// Used in a pass that was not reduced, and not in the one that is.
TEST(DataParallelUnused, CountsAccumulatedPassesAsUse) {
  on_ranks(2, [](const World& world) {
    Net net(0.25);
    DataParallel ddp(*net, world);
    {
      const auto own = ddp.no_sync();
      loss_of(net, part(world)).backward();
    }
    net->first->forward(part(world)).sum().backward();
    Net same(0.25);
    loss_of(same, inputs()).backward();
    EXPECT_TRUE(at::allclose(net->last->weight.grad(), same->last->weight.grad(), 1e-5, 1e-7));
  });
}

TEST(DataParallelMistake, OtherModelsAreNamed) {
  on_ranks(3, [](const World& world) {
    Net net(0.25, world.rank() == 2 ? 5 : 1);
    const auto told = failure_of([&] { const DataParallel ddp(*net, world); });
    EXPECT_THAT(told, HasSubstr("rank 2 has another model than rank 0: last.weight Float [5, 4] "
                                "there, last.weight Float [1, 4] with rank 0"));
  });
}

TEST(DataParallelMistake, AParameterThatCannotBeReducedIsNamed) {
  on_ranks(2, [](const World& world) {
    Net net(0.25);
    net->last->to(torch::kDouble);
    const auto told = failure_of([&] { const DataParallel ddp(*net, world); });
    EXPECT_THAT(told, HasSubstr("parameter last.weight Double [1, 4] is on cpu"));
  });
}

TEST(DataParallelMistake, AModelThatWasChangedIsTold) {
  on_ranks(2, [](const World& world) {
    Net net(0.25);
    const auto told = failure_of([&] {
      const DataParallel ddp(*net, world);
      net->last = net->replace_module("last", torch::nn::Linear(4, 1));
      loss_of(net, part(world)).backward();
    });
    EXPECT_THAT(told, HasSubstr("the model was changed after it was wrapped: last.weight"));
  });
}

TEST(DataParallelMistake, AfterAPassThatThrewThereIsNoOther) {
  on_ranks(2, [](const World& world) {
    Net net(0.25);
    const auto told = failure_of([&] {
      const DataParallel ddp(*net, world, {.bucket_bytes = 1});
      auto middle = torch::tanh(net->first->forward(part(world)));
      middle.register_hook([](const at::Tensor&) { throw std::runtime_error("the user's own"); });
      EXPECT_THROW(net->last->forward(middle).sum().backward(), std::runtime_error);
      loss_of(net, part(world)).backward();
    });
    EXPECT_THAT(told, HasSubstr("another one threw in its midst"));
  });
}

TEST(DataParallelFailure, BackwardThrowsWhatWentWrong) {
  std::latch is_wrapped(1);
  on_ranks(2, [&](const World& world) {
    Net net(0.25);
    const DataParallel ddp(*net, world);
    if (world.rank() == 1) {
      is_wrapped.wait();
      return world.communicator().abort(fail(ErrorCode::kPeerLost, "[test] rank 1 is gone"));
    }
    is_wrapped.count_down();
    const auto told = failure_of([&] { loss_of(net, part(world)).backward(); });
    EXPECT_THAT(told, HasSubstr("[world] rank 0, in backward() 1, reducing gradients"));
    EXPECT_THAT(told, HasSubstr("rank 1 is gone"));
  });
}

}  // namespace
}  // namespace muster
