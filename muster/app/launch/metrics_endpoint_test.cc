#include "muster/app/launch/metrics_endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <fstream>

#include "muster/net/network.h"
#include "muster/testing/temp_folder.h"

namespace muster::app {
namespace {

using ::testing::HasSubstr;

constexpr std::chrono::seconds kLimit{10};

job::PrometheusSpec spec_of(const std::string& listen, const std::string& token_file = {}) {
  job::PrometheusSpec spec;
  spec.listen = listen;
  spec.token_file = token_file;
  return spec;
}

class MetricsEndpointTest : public ::testing::Test {
 protected:
  Result<std::unique_ptr<HttpServer>> open(const job::PrometheusSpec& spec) {
    return open_metrics_endpoint(
        spec, [] { return std::string("muster_step 7\n"); }, system_files());
  }
  static httplib::Result get(const HttpServer& endpoint, const httplib::Headers& headers = {},
                             const std::string& path = "/metrics") {
    httplib::Client client(endpoint.url());
    client.set_read_timeout(kLimit);
    client.enable_server_certificate_verification(false);
    return client.Get(path, headers);
  }
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).native();
  }
  testing::TempFolder folder_;
};

TEST_F(MetricsEndpointTest, AnswersWithTheNumbersAndNothingElse) {
  const auto endpoint = open(spec_of("127.0.0.1:0"));
  ASSERT_TRUE(endpoint) << endpoint.error().message;
  const auto answer = get(**endpoint);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->body, "muster_step 7\n");
  EXPECT_EQ(answer->get_header_value("Content-Type"), "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_EQ(get(**endpoint, {}, "/")->status, 404);
}

TEST_F(MetricsEndpointTest, WhoDoesNotShowTheTokenIsRefused) {
  const auto endpoint = open(spec_of("127.0.0.1:0", write("token", "open sesame\n")));
  ASSERT_TRUE(endpoint) << endpoint.error().message;
  EXPECT_EQ(get(**endpoint)->status, 401);
  for (const char* wrong : {"Bearer open sesam", "Bearer open sesamE", "Bearer ", "open sesame"})
    EXPECT_EQ(get(**endpoint, {{"Authorization", wrong}})->status, 401) << wrong;
  EXPECT_EQ(get(**endpoint, {{"Authorization", "Bearer open sesame"}})->status, 200);
}

TEST_F(MetricsEndpointTest, APortIsNotSharedWithAnotherRun) {
  const auto first = open(spec_of("127.0.0.1:0"));
  ASSERT_TRUE(first);
  const std::string address = (*first)->url().substr(7);  // behind http://
  const auto second = open(spec_of(address));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(second.error().message,
              HasSubstr(address + " cannot be had: somebody else has the port"));
}

TEST_F(MetricsEndpointTest, WhatCannotBeReadIsNamed) {
  const auto empty = open(spec_of("127.0.0.1:0", write("token", " \n")));
  ASSERT_FALSE(empty);
  EXPECT_THAT(empty.error().message, HasSubstr("is empty, and anybody would have the token"));
  const auto missing = open(spec_of("127.0.0.1:0", "/nonexistent"));
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("prometheus.token_file: "));
  job::PrometheusSpec guarded = spec_of("127.0.0.1:0");
  guarded.certificate = write("certificate", "none");
  guarded.key = write("key", "none");
  const auto rubbish = open(guarded);
  ASSERT_FALSE(rubbish);
  EXPECT_THAT(rubbish.error().message, HasSubstr("are no certificate and key in PEM"));
}

}  // namespace
}  // namespace muster::app
