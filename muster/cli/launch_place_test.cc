#include "muster/cli/launch_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::cli {
namespace {

using ::testing::HasSubstr;
using Surroundings = std::map<std::string, std::string>;

LaunchPlace placed(const LaunchFlags& flags, const Surroundings& environment = {}) {
  const auto place = launch_place(flags, environment, 6);
  EXPECT_TRUE(place) << place.error().message;
  return place.value_or(LaunchPlace{});
}

std::string why_not(const LaunchFlags& flags, const Surroundings& environment = {}) {
  const auto place = launch_place(flags, environment, 6);
  EXPECT_FALSE(place);
  if (place) return "";
  EXPECT_EQ(place.error().code, ErrorCode::kInvalid);
  return place.error().message;
}

TEST(LaunchPlace, OneHostNeedsNothing) {
  EXPECT_EQ(placed({}).ranks(), 1);
  EXPECT_EQ(placed({.per_node = "3"}).ranks(), 3);
  EXPECT_EQ(placed({.per_node = "auto"}).per_node, 6);
  EXPECT_EQ(placed({.per_node = "2", .nodes = "1", .node_rank = "0"}).nodes, 1);
}

TEST(LaunchPlace, OneOfSeveralHosts) {
  const LaunchPlace place =
      placed({.per_node = "4", .nodes = "3", .node_rank = "2", .endpoint = "head:1234"});
  EXPECT_EQ(place.ranks(), 12);
  EXPECT_EQ(place.first_rank(), 8);
  EXPECT_EQ(place.meeting, (net::Address{"head", 1234}));
  EXPECT_EQ(placed({.nodes = "2:2", .node_rank = "0", .endpoint = "head"}).meeting,
            (net::Address{"head", 29500}));
  EXPECT_EQ(
      placed({.nodes = "2", .node_rank = "0", .master_host = "h", .master_port = "7"}).meeting,
      (net::Address{"h", 7}));
  EXPECT_EQ(place.local_host, "");
  EXPECT_EQ(placed({.nodes = "2", .node_rank = "1", .endpoint = "h", .local_host = "10.0.0.6"})
                .local_host,
            "10.0.0.6");
}

TEST(LaunchPlace, TorchrunsVariablesStandForFlags) {
  const Surroundings kubeflow{{"PET_NPROC_PER_NODE", "2"},  {"PET_NNODES", "2"},
                              {"PET_NODE_RANK", "1"},       {"PET_MASTER_ADDR", "master-0"},
                              {"PET_MASTER_PORT", "23456"}, {"PET_MAX_RESTARTS", "3"},
                              {"PET_RDZV_ID", "night"}};
  const LaunchPlace place = placed({}, kubeflow);
  EXPECT_EQ(place.first_rank(), 2);
  EXPECT_EQ(place.meeting, (net::Address{"master-0", 23456}));
  EXPECT_EQ(place.max_restarts, 3);
  EXPECT_EQ(place.id, "night");
  EXPECT_EQ(placed({.per_node = "5", .node_rank = "0"}, kubeflow).per_node, 5);
}

TEST(LaunchPlace, WhatIsMissingOrWrongIsNamed) {
  EXPECT_THAT(why_not({.nodes = "2", .endpoint = "h"}), HasSubstr("--node-rank is missing"));
  EXPECT_THAT(why_not({.nodes = "2", .node_rank = "1"}),
              HasSubstr("--rdzv-endpoint HOST:PORT (or --master-addr) is missing"));
  EXPECT_THAT(why_not({.nodes = "2", .node_rank = "2", .endpoint = "h"}),
              HasSubstr("--node-rank is `2`; expected a number from 0 to 1"));
  EXPECT_THAT(why_not({.nodes = "1:4"}), HasSubstr("--nnodes is `1:4`; expected one number"));
  EXPECT_THAT(why_not({.per_node = "gpu"}),
              HasSubstr("--nproc-per-node is `gpu`; expected `auto`"));
  EXPECT_THAT(why_not({}, {{"PET_NNODES", "x"}}), HasSubstr("PET_NNODES is `x`"));
  EXPECT_THAT(why_not({.per_node = "60000", .nodes = "2", .node_rank = "0", .endpoint = "h"}),
              HasSubstr("more than 65536"));
  EXPECT_THAT(why_not({.nodes = "2", .node_rank = "0", .endpoint = "h:x"}),
              HasSubstr("--rdzv-endpoint is `h:x`"));
}

}  // namespace
}  // namespace muster::cli
