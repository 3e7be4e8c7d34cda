#pragma once
// What Kubernetes is given to train a job: a ConfigMap with the job file, and a JobSet
// (https://jobset.sigs.k8s.io, v1alpha2) of a launcher and of workers that join it; or a TrainJob
// (https://trainer.kubeflow.org, v1alpha1), of which Kubeflow makes that JobSet. Pure.

#include <cstdint>
#include <string>
#include <vector>

namespace muster::cli {

enum class KubernetesKind : std::uint8_t {
  kJobSet,
  kTrainJob,  // with a TrainingRuntime of its own, which holds the JobSet's specification
};

struct KubernetesJob {
  KubernetesKind kind = KubernetesKind::kJobSet;
  std::string name;                  // of all that is made, and of the run
  std::string name_space;            // empty: the one that kubectl is set to
  std::string image;                 // has muster on its PATH
  std::string claim;                 // of a volume that all pods may write at once (ReadWriteMany)
  std::string job;                   // the text of the job file
  std::vector<std::string> words;    // what follows it: --set, --quick
  std::int32_t workers = 1;          // of the launcher's pod
  std::int64_t others = 0;           // one a pod
  std::int64_t max_workers = 1;      // all of them, standbys included
  std::int32_t cpus_per_worker = 0;  // 0: not said
};

// The launcher's pod says where it listens, and its key, in the run's folder, which lies in the
// volume; there the others find both. A launcher that is evicted saves (143) and a new pod goes on;
// what would happen again (2, 3 and 4) ends the JobSet. The others wait for a new launcher until
// the JobSet is over.
std::string kubernetes_manifest(const KubernetesJob& job);

// A job's name as the beginning of one that Kubernetes takes, which is of small letters, digits and
// `-`, and leaves room for what is put behind it.
std::string kubernetes_name(const std::string& name);
bool is_kubernetes_name(const std::string& name);

// `text` as the value of a key at two spaces: a block, or, where one could not hold it, one line in
// quotes.
std::string yaml_text(const std::string& text);

}  // namespace muster::cli
