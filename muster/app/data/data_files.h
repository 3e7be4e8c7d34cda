#pragma once
// Which files a job's data section and model.weights mean. Known to the launcher, which looks
// before anything is made, and to the worker, which reads them.

#include "muster/base/files.h"
#include "muster/base/result.h"
#include "muster/job/spec.h"

namespace muster::app {

struct DataFiles {  // of type idx; each as named, or its gzip twin where only that is there
  Path train_images, train_labels, validation_images, validation_labels;
};
DataFiles idx_files(Files& files, const job::DataSpec& data);

// kNotFound, naming field and path, where something is missing; kInvalid where it is of another
// kind.
Status check_data_is_there(Files& files, const job::DataSpec& data);
Status check_weights_are_there(Files& files, const job::ModelSpec& model);

}  // namespace muster::app
