#include "muster/job/path_fields.h"

namespace muster::job {
namespace {

constexpr PathField kPathFields[] = {
    {"data.path", [](JobSpec& job) -> std::string& { return job.data.path; }},
    {"data.validation_path", [](JobSpec& job) -> std::string& { return job.data.validation_path; }},
    {"data.cache", [](JobSpec& job) -> std::string& { return job.data.cache; }, true},
    {"optimizer.offload_folder",
     [](JobSpec& job) -> std::string& { return job.optimizer.offload_folder; }, true},
    {"model.weights", [](JobSpec& job) -> std::string& { return job.model.weights; }},
    {"preemption.file", [](JobSpec& job) -> std::string& { return job.preemption.file; }},
    {"autoscaling.file", [](JobSpec& job) -> std::string& { return job.autoscaling.file; }},
    {"prometheus.token_file",
     [](JobSpec& job) -> std::string& { return job.prometheus.token_file; }},
    {"prometheus.certificate",
     [](JobSpec& job) -> std::string& { return job.prometheus.certificate; }},
    {"prometheus.key", [](JobSpec& job) -> std::string& { return job.prometheus.key; }},
    {"mlflow.token_file", [](JobSpec& job) -> std::string& { return job.mlflow.token_file; }},
    {"mlflow.certificate", [](JobSpec& job) -> std::string& { return job.mlflow.certificate; }},
    {"run_folder", [](JobSpec& job) -> std::string& { return job.run_folder; }}};

}  // namespace

std::span<const PathField> path_fields() noexcept { return kPathFields; }

}  // namespace muster::job
