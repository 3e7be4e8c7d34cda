#include "muster/own/app.h"

#include "muster/app/worker/program/worker_program.h"
#include "muster/cli/program/program.h"

namespace muster {

App& App::describe(job::OwnKind kind, std::string name, About about, bool higher) {
  own_.push_back({.kind = kind,
                  .name = std::move(name),
                  .doc = std::move(about.doc),
                  .options = std::move(about.options),
                  .higher_is_better = higher});
  return *this;
}

App& App::add_blocks(std::string name, About about, app::MakeModel make) {
  components_.models[name] = std::move(make);
  return describe(job::OwnKind::kModel, std::move(name), std::move(about));
}

App& App::add_loss(std::string name, About about, app::MakeMeasure make) {
  components_.losses[name] = std::move(make);
  return describe(job::OwnKind::kLoss, std::move(name), std::move(about));
}

App& App::add_metric(std::string name, Better better, About about, app::MakeMeasure make) {
  components_.metrics[name] = std::move(make);
  return describe(job::OwnKind::kMetric, std::move(name), std::move(about),
                  better == Better::kHigher);
}

App& App::add_data(std::string name, About about, app::MakeSource make) {
  components_.sources[name] = std::move(make);
  return describe(job::OwnKind::kData, std::move(name), std::move(about));
}

App& App::add_transform(std::string name, About about, app::MakeTransform make) {
  components_.transforms[name] = {.make = std::move(make)};
  return describe(job::OwnKind::kTransform, std::move(name), std::move(about));
}

App& App::add_augmentation(std::string name, About about, app::MakeTransform make) {
  components_.transforms[name] = {.make = std::move(make), .training_only = true};
  return describe(job::OwnKind::kTransform, std::move(name), std::move(about));
}

int App::run(int argc, char** argv) {
  Status usable = job::check(own_);
  if (usable) components_.fields = std::make_shared<const job::Fields>(own_);
  if (usable && app::is_worker_call(argc, argv))
    return app::run_worker_program(argc, argv, std::make_shared<app::Components>(components_));
  return cli::run_program(
      argc, argv, {.fields = components_.fields, .is_worker = true, .usable = std::move(usable)});
}

}  // namespace muster
