// The fields: name, member, documentation, limits. Nothing else in muster lists them.
#include "muster/job/field_table.h"

#include "muster/job/bind.h"
#include "muster/job/fields.h"

namespace muster::job {
namespace {

std::vector<Field> top_fields() {
  return {
      bind("name", at(&JobSpec::name),
           {.doc = "Name of the job; its runs lie in a folder of this name.",
            .default_text = "the job file's name"}),
      bind("seed", at(&JobSpec::seed),
           {.doc = "Decides initial weights, sample order, dropout and augmentation.", .min = 0}),
      bind("device", at(&JobSpec::device),
           {.doc = "Where tensors live and kernels run; cuda is not in this version yet."}),
      bind("run_folder", at(&JobSpec::run_folder),
           {.doc = "Folder that receives <name>/<run>/ with metrics, logs and checkpoints."}),
  };
}

std::vector<Field> data_fields() {
  const OnlyWith idx{"data.type", {"idx"}};
  const OnlyWith text{"data.type", {"text"}};
  const auto in = [](auto member) { return at(&JobSpec::data, member); };
  return {
      bind("data.type", in(&DataSpec::type),
           {.doc = "idx: images and labels as of MNIST; text: one file, read as bytes. Programs of "
                   "your own may add others.",
            .required = true}),
      bind("data.path", in(&DataSpec::path),
           {.doc = "Folder with the idx files, or the text file.", .required = true}),
      bind("data.validation_path", in(&DataSpec::validation_path),
           {.doc = "Where validation data lies, if elsewhere.",
            .default_text = "idx: data.path; text: the end of the file"}),
      bind("data.train_images", in(&DataSpec::train_images),
           {.doc = "Name of the file; `.gz` is tried too.", .only_with = idx}),
      bind("data.train_labels", in(&DataSpec::train_labels),
           {.doc = "Name of the file; `.gz` is tried too.", .only_with = idx}),
      bind("data.validation_images", in(&DataSpec::validation_images),
           {.doc = "Name of the file; `.gz` is tried too.", .only_with = idx}),
      bind("data.validation_labels", in(&DataSpec::validation_labels),
           {.doc = "Name of the file; `.gz` is tried too.", .only_with = idx}),
      bind("data.context_length", in(&DataSpec::context_length),
           {.doc = "Length of one sample of text.",
            .unit = "bytes",
            .min = 1,
            .max = 1 << 20,
            .only_with = text}),
      bind("data.validation_split", in(&DataSpec::validation_split),
           {.doc = "Share at the end of the text that is held out for validation.",
            .unit = kShare,
            .min = 0,
            .below = 1,
            .only_with = text}),
      bind("data.shuffle", in(&DataSpec::shuffle),
           {.doc = "Another order of the samples in each epoch."}),
      bind("data.mean", in(&DataSpec::mean),
           {.doc = "Subtracted from pixels in [0, 1], one value a channel; [] for none.",
            .only_with = idx}),
      bind("data.std", in(&DataSpec::std),
           {.doc = "Divides pixels after the mean is subtracted; as many values as data.mean.",
            .above = 0,
            .only_with = idx}),
  };
}

std::vector<Field> loading_fields() {
  const OnlyWith idx{"data.type", {"idx"}};
  const auto in = [](auto member) { return at(&JobSpec::data, member); };
  return {
      bind("data.loader_threads", in(&DataSpec::loader_threads),
           {.doc = "Threads of a worker that read and transform samples.", .min = 1, .max = 256}),
      bind("data.prefetch_batches", in(&DataSpec::prefetch_batches),
           {.doc = "Batches kept ready ahead of the step.", .min = 1, .max = 1024}),
      bind("data.transforms", in(&DataSpec::transforms),
           {.doc = "Transforms of a program's own (docs/app.md), applied one after the other."}),
      bind("data.cache", in(&DataSpec::cache),
           {.doc = "Folder for inflated copies of gzip files, which the workers of a host share; "
                   "auto: muster in $XDG_CACHE_HOME or ~/.cache; none: each inflates for itself.",
            .only_with = idx}),
      bind("data.augment.crop_padding",
           at(&JobSpec::data, &DataSpec::augment, &AugmentSpec::crop_padding),
           {.doc = "Random crop after padding each side by this much; 0 for none.",
            .unit = "pixels",
            .min = 0,
            .max = 1024,
            .only_with = idx}),
      bind("data.augment.flip", at(&JobSpec::data, &DataSpec::augment, &AugmentSpec::flip),
           {.doc = "Mirrors every second sample left to right.", .only_with = idx}),
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
      {"autoscaling", "How many workers this host should start, while it trains."},
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
  for (auto* part : {&top_fields, &model_fields, &data_fields, &loading_fields, &training_fields,
                     &surroundings_fields}) {
    for (auto& field : part()) table.push_back(std::move(field));
  }
  return table;
}

}  // namespace muster::job
