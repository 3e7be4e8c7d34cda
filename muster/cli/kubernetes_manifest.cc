#include "muster/cli/kubernetes_manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <sstream>

#include "muster/base/shell_words.h"

namespace muster::cli {
namespace {

// Kubernetes puts `-launcher-0-0-` and more behind it, and takes 63 characters.
constexpr std::size_t kLongestLabel = 40;
constexpr std::size_t kLongestName = kLongestLabel - 8;  // what is put behind it here

std::string json_quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string run_of(const KubernetesJob& job) { return "/runs/" + job.name; }

std::string key_of(const KubernetesJob& job) { return run_of(job) + "/latest/join.key"; }

std::string train_script(const KubernetesJob& job) {
  std::string words;
  for (const std::string& word : job.words) words += " " + shell_quoted(word);
  if (job.cpus_per_worker > 0)
    words += fmt::format(" --set training.lanes={}", job.cpus_per_worker);
  std::string text = fmt::format(
      "# The only launcher, though of an indexed Job: other pods have workers, which join it.\n"
      "unset JOB_COMPLETION_INDEX\n"
      "set -- muster train /etc/muster/job.yaml{} --workers {} \\\n"
      "  --set name={} --set run_folder=/runs",
      words, job.workers, job.name);
  if (job.others > 0)
    text += fmt::format(" \\\n  --set \"workers.listen=$POD_IP:0\" --set workers.max_workers={}",
                        job.max_workers);
  text += fmt::format(R"(
# A pod that comes in the place of another goes on from what that has saved.
if ls {}/*/checkpoints/*/manifest.json > /dev/null 2>&1; then
  set -- "$@" --resume
fi
)",
                      run_of(job));
  if (job.others > 0)
    text +=
        fmt::format("# The key of a launcher that was killed would mislead the others.\nrm -f {}\n",
                    key_of(job));
  return text + "exec \"$@\"\n";
}

std::string worker_script(const KubernetesJob& job) {
  return fmt::format(
      R"(# A worker ends with its launcher. It waits for the next one until this pod is taken away.
trap 'over=yes; kill "$child" 2> /dev/null' TERM
while [ -z "$over" ]; do
  muster worker --credentials {} --join-timeout "24 h" &
  child=$!
  wait "$child" || wait "$child"
  [ -n "$over" ] && break
  sleep 5 &
  child=$!
  wait "$child"
done
# No success, after which no other pod would come.
exit 143
)",
      key_of(job));
}

std::string metadata(const KubernetesJob& job) {
  std::string text = fmt::format("metadata:\n  name: {}\n", job.name);
  if (!job.name_space.empty()) text += fmt::format("  namespace: {}\n", job.name_space);
  return text;
}

std::string config_map(const KubernetesJob& job) {
  std::string text = "apiVersion: v1\nkind: ConfigMap\n" + metadata(job) +
                     "data:\n  job.yaml: " + yaml_text(job.job) +
                     "  train.sh: " + yaml_text(train_script(job));
  if (job.others > 0) text += "  worker.sh: " + yaml_text(worker_script(job));
  return text;
}

// Of exit codes only those can change by themselves that a new pod may outlive.
constexpr std::string_view kLauncherEnds = R"(        backoffLimit: 3
        podFailurePolicy:
          rules:
          # Usage, environment, numbers that went wrong: it would only happen again.
          - action: FailJob
            onExitCodes: {containerName: muster, operator: In, values: [2, 3, 4]}
          # Saved after SIGTERM, or the node was wanted back: on with it in another pod.
          - action: Ignore
            onExitCodes: {containerName: muster, operator: In, values: [143]}
          - action: Ignore
            onPodConditions: [{type: DisruptionTarget, status: "True"}]
)";

// A worker that is lost is no failure of the job.
constexpr std::string_view kOthersNeverFail = "        backoffLimit: 2147483647\n";

std::string resources(std::int64_t cpus) {
  if (cpus == 0) return "";
  return fmt::format("              resources: {{requests: {{cpu: {0}}}, limits: {{cpu: {0}}}}}\n",
                     cpus);
}

std::string replicated_job(const KubernetesJob& job, std::string_view name, std::int64_t pods,
                           std::string_view ends, std::string_view script, std::int64_t cpus) {
  return fmt::format(R"(  - name: {}
    replicas: 1
    template:
      spec:
        completions: {}
        parallelism: {}
{}        template:
          spec:
            restartPolicy: Never
            terminationGracePeriodSeconds: 120
            enableServiceLinks: false  # variables of a service `muster` would be fields of the job
            containers:
            - name: muster
              image: {}
              command: [/bin/sh, /etc/muster/{}]
              env:
              - name: POD_IP
                valueFrom: {{fieldRef: {{fieldPath: status.podIP}}}}
{}              volumeMounts:
              - {{name: job, mountPath: /etc/muster}}
              - {{name: runs, mountPath: /runs}}
            volumes:
            - name: job
              configMap: {{name: {}}}
            - name: runs
              persistentVolumeClaim: {{claimName: {}}}
)",
                     name, pods, pods, ends, json_quoted(job.image), script, resources(cpus),
                     job.name, job.claim);
}

std::string jobset_specification(const KubernetesJob& job) {
  std::string text =
      "spec:\n  # The job is over when its launcher has come to its end.\n"
      "  successPolicy: {operator: All, targetReplicatedJobs: [launcher]}\n"
      "  replicatedJobs:\n" +
      replicated_job(job, "launcher", 1, kLauncherEnds, "train.sh",
                     std::int64_t{job.workers} * job.cpus_per_worker);
  if (job.others > 0)
    text += replicated_job(job, "workers", job.others, kOthersNeverFail, "worker.sh",
                           job.cpus_per_worker);
  return text;
}

std::string jobset(const KubernetesJob& job) {
  return "---\napiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\n" + metadata(job) +
         jobset_specification(job);
}

std::string indented(const std::string& text, std::size_t by) {
  std::string result;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) result += std::string(by, ' ') + line + "\n";
  return result;
}

// Kubeflow asks a runtime for the label, and none of ours is its own `trainer` step, whose command
// and number of nodes it would set: both are the job's.
std::string train_job(const KubernetesJob& job) {
  constexpr std::string_view kVersion = "---\napiVersion: trainer.kubeflow.org/v1alpha1\n";
  return fmt::format(
      "{0}kind: TrainingRuntime\n{1}  labels: {{trainer.kubeflow.org/framework: muster}}\n"
      "spec:\n  template:\n{2}{0}kind: TrainJob\n{1}"
      "spec:\n  runtimeRef: {{apiGroup: trainer.kubeflow.org, kind: TrainingRuntime, name: {3}}}\n",
      kVersion, metadata(job), indented(jobset_specification(job), 4), job.name);
}

bool fits_in_block(const std::string& text) {
  const bool plain = std::ranges::none_of(
      text, [](unsigned char c) { return (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f; });
  return plain && text.find_first_not_of('\n') != std::string::npos && text.back() == '\n';
}

}  // namespace

std::string yaml_text(const std::string& text) {
  if (!fits_in_block(text)) return json_quoted(text) + "\n";
  // Else the spaces with which the text begins would count as the block's.
  const bool begins_apart = text[text.find_first_not_of('\n')] == ' ' || text.front() == '\n';
  std::string block =
      fmt::format("|{}{}\n", begins_apart ? "2" : "", text.ends_with("\n\n") ? "+" : "");
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    block += line.empty() ? "\n" : "    " + line + "\n";
  return block;
}

std::string kubernetes_name(const std::string& name) {
  std::string plain;
  for (const char c : name) {
    const bool kept = static_cast<unsigned char>(c) < 0x80 && std::isalnum(c) != 0;
    if (kept) plain += static_cast<char>(std::tolower(c));
    if (!kept && !plain.empty() && !plain.ends_with('-')) plain += '-';
  }
  if (plain.empty() || std::isdigit(plain.front()) != 0) plain.insert(0, "job-");
  plain.resize(std::min(plain.size(), kLongestName));
  while (plain.ends_with('-')) plain.pop_back();
  return plain;
}

bool is_kubernetes_name(const std::string& name) {
  const bool plain = std::ranges::all_of(
      name, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; });
  return plain && !name.empty() && name.size() <= kLongestLabel && name[0] >= 'a' &&
         name[0] <= 'z' && name.back() != '-';
}

std::string kubernetes_manifest(const KubernetesJob& job) {
  return config_map(job) + (job.kind == KubernetesKind::kJobSet ? jobset(job) : train_job(job));
}

}  // namespace muster::cli
