#include "muster/app/serve/http_server.h"

#include <gtest/gtest.h>
#include <httplib.h>

namespace muster::app {
namespace {

std::optional<HttpAnswer> hello(std::string_view path) {
  if (path != "/hello") return std::nullopt;
  return HttpAnswer{"text/plain", "hello"};
}

int status_of(const HttpServer& server, const std::string& path, const httplib::Headers& headers) {
  httplib::Client client(server.url());
  const auto answer = client.Get(path, headers);
  return answer ? answer->status : 0;
}

TEST(HttpServer, OfThisHostAloneAnswersOnlyItsOwnNames) {
  HttpOptions options;
  options.address = {"127.0.0.1", 0};
  options.only_loopback_names = true;
  const auto server = open_http_server(options, hello);
  ASSERT_TRUE(server) << server.error().message;
  EXPECT_EQ(status_of(**server, "/hello", {}), 200);
  EXPECT_EQ(status_of(**server, "/hello", {{"Host", "localhost:80"}}), 200);
  EXPECT_EQ(status_of(**server, "/hello", {{"Host", "[::1]"}}), 200);
  EXPECT_EQ(status_of(**server, "/hello", {{"Host", "stranger.example"}}), 403);
  EXPECT_EQ(status_of(**server, "/nothing", {}), 404);
}

TEST(HttpServer, AnswersNobodyOnceItHasGone) {
  HttpOptions options;
  options.address = {"127.0.0.1", 0};
  auto server = open_http_server(options, hello);
  ASSERT_TRUE(server);
  const std::string url = (*server)->url();
  server->reset();
  EXPECT_FALSE(httplib::Client(url).Get("/hello"));
}

TEST(HttpServer, WhatIsNoAddressOfThisHostIsSaid) {
  HttpOptions options;
  options.address = {"192.0.2.1", 0};  // of documents (RFC 5737)
  const auto server = open_http_server(options, hello);
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace muster::app
