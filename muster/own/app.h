#pragma once
// App: main() of a program that adds its own models, losses, metrics, data and transforms to
// muster, under names that its job files then use, and has the whole command line of muster. It is
// its own worker program as well. docs/app.md explains it; examples/tides is a whole one.
//
//   int main(int argc, char** argv) {
//     muster::App app;
//     app.add_model("tide_net", {.doc = "Two layers."}, [](const muster::ModelRequest& request) {
//       return TideNet(request.shape_of("input")[0]);
//     });
//     return app.run(argc, argv);
//   }
//
// One thread. Nothing fails before run(), which tells what is wrong with a name and gives exit code
// 2; what the functions throw when they are called is an error of the job that names them.

#include <torch/nn/pimpl.h>

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "muster/app/worker/components.h"
#include "muster/job/own.h"
#include "muster/models/block.h"

namespace muster {

using app::DataPart;
using app::DataRequest;
using app::ModelRequest;
using app::Options;
using Option = job::OwnOption;  // {.name = "width", .usual = std::int64_t{32}, .doc = "…"}
using Blocks = std::vector<models::NamedBlock>;

struct About {
  std::string doc;                   // a sentence, for `help job`
  std::vector<Option> options = {};  // `options.<name>.<option>` in the job file
};

enum class Better : std::uint8_t { kLower, kHigher };

// A module of libtorch with Tensor forward(Tensor) as a block of a model. It may have neither
// buffers nor dropout of libtorch's own: this throws where it has some.
template <class Module>
models::NamedBlock block(std::string name, std::shared_ptr<Module> module) {
  app::check_module(*module, name);
  return {std::move(name), std::make_shared<models::ModuleBlock<Module>>(std::move(module))};
}
template <class Module>
models::NamedBlock block(std::string name, const torch::nn::ModuleHolder<Module>& module) {
  return block(std::move(name), module.ptr());
}

class App {
 public:
  // model.type. `make`: from a ModelRequest to Blocks, in the order of forward, or to one module,
  // which is then the block "model".
  template <class Make>
  App& add_model(std::string name, About about, Make make) {
    return add_blocks(std::move(name), std::move(about),
                      [make](const ModelRequest& request) { return blocks_of(make(request)); });
  }
  // training.loss, minimised on the mean over all targets: see models::Measure.
  App& add_loss(std::string name, About about, app::MakeMeasure make);
  // evaluation.metrics and evaluation.metric: the mean of its values, as eval/<name>.
  App& add_metric(std::string name, Better better, About about, app::MakeMeasure make);
  // data.type. Yields the fields `input` and `target`, or those that muster's own formats yield.
  App& add_data(std::string name, About about, app::MakeSource make);
  // data.transforms. An augmentation is left out of evaluations.
  App& add_transform(std::string name, About about, app::MakeTransform make);
  App& add_augmentation(std::string name, About about, app::MakeTransform make);

  // The command line, or a worker where a launcher started one. The exit code.
  int run(int argc, char** argv);

 private:
  static Blocks blocks_of(Blocks blocks) { return blocks; }
  template <class Module>
  static Blocks blocks_of(Module module) {
    return {block("model", std::move(module))};
  }
  App& add_blocks(std::string name, About about, app::MakeModel make);
  App& describe(job::OwnKind kind, std::string name, About about, bool higher = false);

  job::OwnComponents own_;
  app::Components components_;
};

}  // namespace muster
