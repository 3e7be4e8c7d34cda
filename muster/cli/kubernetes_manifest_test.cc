#include "muster/cli/kubernetes_manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

KubernetesJob with_others(std::int64_t others) {
  return {.kind = KubernetesKind::kJobSet,
          .name = "gpt-3f09a1",
          .name_space = "",
          .image = "registry/muster:1",
          .claim = "muster-runs",
          .job = "name: gpt\n",
          .words = {},
          .workers = 2,
          .others = others,
          .max_workers = 2 + others};
}

TEST(KubernetesManifest, ALauncherAndWorkersThatFindItInTheVolume) {
  EXPECT_THAT(kubernetes_manifest(with_others(6)),
              AllOf(HasSubstr("---\napiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\n"),
                    HasSubstr("targetReplicatedJobs: [launcher]"),
                    HasSubstr("\n    unset JOB_COMPLETION_INDEX\n    set -- muster train "
                              "/etc/muster/job.yaml --workers 2 \\\n      --set "
                              "name=gpt-3f09a1 --set run_folder=/runs \\\n      --set "
                              "\"workers.listen=$POD_IP:0\" --set workers.max_workers=8\n"),
                    HasSubstr("muster worker --credentials /runs/gpt-3f09a1/latest/join.key "),
                    HasSubstr("  - name: workers\n"), HasSubstr("        completions: 6\n")));
}

TEST(KubernetesManifest, AloneTheLauncherListensToNobody) {
  EXPECT_THAT(kubernetes_manifest(with_others(0)),
              AllOf(HasSubstr("  - name: launcher\n"), Not(HasSubstr("- name: workers")),
                    Not(HasSubstr("listen")), Not(HasSubstr("join.key")),
                    Not(HasSubstr("worker.sh")), Not(HasSubstr("namespace"))));
}

TEST(KubernetesManifest, ATrainJobHasTheJobSetInARuntimeOfItsOwn) {
  KubernetesJob job = with_others(6);
  job.name_space = "research";
  const std::string set = kubernetes_manifest(job);
  job.kind = KubernetesKind::kTrainJob;
  const std::string train = kubernetes_manifest(job);
  EXPECT_THAT(
      train,
      AllOf(HasSubstr("kind: TrainingRuntime\nmetadata:\n  name: gpt-3f09a1\n  namespace: "
                      "research\n  labels: {trainer.kubeflow.org/framework: muster}\n"),
            HasSubstr("\n    spec:\n"), HasSubstr("\n            completions: 6\n"),
            HasSubstr("kind: TrainJob\n"), HasSubstr("kind: TrainingRuntime, name: gpt-3f09a1}\n"),
            Not(HasSubstr("kind: JobSet"))));
  EXPECT_EQ(set.substr(0, set.find("---")), train.substr(0, train.find("---")));
}

TEST(KubernetesManifest, OnlyWhatAnotherPodMayOutliveIsTriedAgain) {
  EXPECT_THAT(kubernetes_manifest(with_others(0)),
              AllOf(HasSubstr("- action: FailJob\n            onExitCodes: {containerName: muster, "
                              "operator: In, values: [2, 3, 4]}\n"),
                    HasSubstr("- action: Ignore\n            onExitCodes: {containerName: muster, "
                              "operator: In, values: [143]}\n")));
}

TEST(KubernetesManifest, ProcessorsAreLanes) {
  KubernetesJob job = with_others(1);
  EXPECT_THAT(kubernetes_manifest(job), AllOf(Not(HasSubstr("cpu")), Not(HasSubstr("lanes"))));
  job.cpus_per_worker = 4;
  EXPECT_THAT(kubernetes_manifest(job),
              AllOf(HasSubstr(" --set training.lanes=4 "),
                    HasSubstr("resources: {requests: {cpu: 8}, limits: {cpu: 8}}\n"),
                    HasSubstr("resources: {requests: {cpu: 4}, limits: {cpu: 4}}\n")));
}

TEST(KubernetesManifest, WhatAPersonWroteIsQuoted) {
  KubernetesJob job = with_others(1);
  job.words = {"--set", "data.path=/data/it's $here"};
  job.image = "r/\"muster\"";
  EXPECT_THAT(kubernetes_manifest(job),
              AllOf(HasSubstr(R"(--set 'data.path=/data/it'\''s $here' )"),
                    HasSubstr("image: \"r/\\\"muster\\\"\"\n")));
}

TEST(KubernetesManifest, TextStaysAsItIs) {
  EXPECT_EQ(yaml_text("a: 1\n\n  b: 2\n"), "|\n    a: 1\n\n      b: 2\n");
  EXPECT_EQ(yaml_text("  a\nb\n"), "|2\n      a\n    b\n");
  EXPECT_EQ(yaml_text("\na\n"), "|2\n\n    a\n");
  EXPECT_EQ(yaml_text("a\n\n\n"), "|+\n    a\n\n\n");
  EXPECT_EQ(yaml_text("a"), "\"a\"\n");
  EXPECT_EQ(yaml_text("a\r\nb\n"), "\"a\\r\\nb\\n\"\n");
  EXPECT_EQ(yaml_text("\n\n"), "\"\\n\\n\"\n");
}

TEST(KubernetesManifest, NamesAreThoseOfKubernetes) {
  EXPECT_EQ(kubernetes_name("gpt"), "gpt");
  EXPECT_EQ(kubernetes_name("Whoever's_gpt.2"), "whoever-s-gpt-2");
  EXPECT_EQ(kubernetes_name("7 ways"), "job-7-ways");
  EXPECT_EQ(kubernetes_name("ä"), "job");
  for (const std::string& name : {std::string("7"), std::string("--a--"), std::string(99, 'x')})
    EXPECT_TRUE(is_kubernetes_name(kubernetes_name(name) + "-3f09a1")) << name;
  for (const std::string& name : {std::string(), std::string("A"), std::string("7a"),
                                  std::string("a-"), std::string("a b"), std::string(41, 'x')})
    EXPECT_FALSE(is_kubernetes_name(name)) << name;
}

}  // namespace
}  // namespace muster::cli
