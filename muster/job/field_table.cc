// The fields: name, member, documentation, limits. Nothing else in muster lists them.
#include "muster/job/field_table.h"

#include "muster/job/bind.h"
#include "muster/job/fields.h"
#include "muster/job/name.h"

namespace muster::job {
namespace {

std::vector<Field> top_fields() {
  return {
      bind("name", at(&JobSpec::name),
           {.doc = "Name of the job; its runs lie in a folder of this name.",
            .pattern = kNamePattern,
            .default_text = "the job file's name"}),
      bind("seed", at(&JobSpec::seed),
           {.doc = "Decides initial weights, sample order, dropout and augmentation.", .min = 0}),
      bind("device", at(&JobSpec::device),
           {.doc = "Where tensors live and kernels run; cuda is not in this version yet."}),
      bind("run_folder", at(&JobSpec::run_folder),
           {.doc = "Folder that receives <name>/<run>/ with metrics, logs and checkpoints."}),
  };
}

}  // namespace

const std::vector<Section>& muster_sections() {
  static const std::vector<Section> kSections = {
      {"", "The job as a whole."},
      {"model", "What is trained."},
      {"lora", "Low-rank adapters: a model is tuned by training thin matrices beside its own."},
      {"data", "What it is trained on."},
      {"data.augment", "Random changes to training images, keyed by sample and epoch."},
      {"training", "How long, in which batches, how exactly repeatable."},
      {"training.loss_scale",
       "The dynamic loss scale of fp16, by the rule of PyTorch's GradScaler."},
      {"strategy", "How training is spread over the workers."},
      {"strategy.mesh",
       "The workers as a grid with named axes, along each of which they share out something else."},
      {"optimizer", "How gradients become updates."},
      {"ema", "An exponential moving average of the weights, beside them."},
      {"schedule", "The learning rate over the training, keyed by samples seen."},
      {"evaluation", "Measuring on the validation data."},
      {"checkpoint", "Saving the state of the training."},
      {"workers", "The processes that train together."},
      {"autoscaling", "How many workers are started, here or on workers.hosts, while it trains."},
      {"preemption", "How a worker learns that its host is wanted back."},
      {"replicas", "Whether all workers hold the same weights, bit for bit."},
      {"stragglers", "What is done about a worker that is slower than the others."},
      {"communication", "How workers exchange gradients."},
      {"logging", "What is told while it runs."},
      {"prometheus", "An endpoint at which Prometheus fetches what the run measures."},
      {"mlflow", "A tracking server of MLflow's that gets what the run measures (docs/mlflow.md)."},
      {"trace", "A timeline of what every worker does, for Perfetto (docs/traces.md)."},
      {"generate", "A sample of text at the end of a language model's job."},
  };
  return kSections;
}

std::vector<Field> field_table() {
  std::vector<Field> table;
  for (auto* part :
       {&top_fields, &model_fields, &data_fields, &training_fields, &surroundings_fields}) {
    for (auto& field : part()) table.push_back(std::move(field));
  }
  return table;
}

}  // namespace muster::job
