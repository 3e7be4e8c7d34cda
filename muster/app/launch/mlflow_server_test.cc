#include "muster/app/launch/mlflow_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <fstream>
#include <future>
#include <latch>
#include <thread>

#include "muster/app/launch/mlflow_tracking.h"
#include "muster/testing/temp_folder.h"

namespace muster::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

// Says what it was asked; "/slow" only once it is released.
class EchoServer {
 public:
  EchoServer() {
    const auto echo = [](const httplib::Request& request, httplib::Response& response) {
      response.set_content(request.method + " " + request.path + " " +
                               request.get_header_value("Authorization") + " " +
                               request.get_header_value("Content-Type") + " " + request.body,
                           "text/plain");
    };
    server_.Get("/slow", [this](const httplib::Request& /*request*/, httplib::Response& /*to*/) {
      asked_.count_down();
      release_.wait();
    });
    server_.Get(".*", echo).Post(".*", echo).Put(".*", echo);
    port_ = server_.bind_to_any_port("127.0.0.1");
    serving_ = std::thread([this] { server_.listen_after_bind(); });
  }
  ~EchoServer() {
    server_.stop();
    serving_.join();
  }
  std::string uri() const { return fmt::format("http://127.0.0.1:{}", port_); }
  void wait_until_asked() { asked_.wait(); }
  void release() { release_.count_down(); }

 private:
  httplib::Server server_;
  std::latch asked_{1};
  std::latch release_{1};
  int port_ = 0;
  std::thread serving_;
};

class MlflowServerTest : public ::testing::Test {
 protected:
  static Result<MlflowAccess> access(const job::MlflowSpec& spec, const Variables& variables) {
    return mlflow_access(spec, variables, system_files());
  }
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).native();
  }
  testing::TempFolder folder_;
};

TEST_F(MlflowServerTest, AsksBelowTheServersFolderWithTheAccount) {
  EchoServer echo;
  const auto open = open_mlflow_server(echo.uri(), {});
  const auto plain = open->ask({"GET", "/api/x?a=b"});
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_EQ(plain->status, 200);
  EXPECT_EQ(plain->body, "GET /api/x   ");
  const auto below = open_mlflow_server(echo.uri() + "/ml/flow", {.token = "t"});
  EXPECT_EQ(below->ask({"POST", "/api/x", "{}"})->body,
            "POST /ml/flow/api/x Bearer t application/json {}");
  const auto account = open_mlflow_server(echo.uri(), {.user = "ada", .password = "1815"});
  EXPECT_EQ(account->ask({"PUT", "/api/x", "!", "application/octet-stream"})->body,
            "PUT /api/x Basic YWRhOjE4MTU= application/octet-stream !");
}

TEST_F(MlflowServerTest, SaysThatNobodyAnswers) {
  const auto answer = open_mlflow_server("http://127.0.0.1:1", {})->ask({"GET", "/"});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(answer.error().message, "[mlflow] http://127.0.0.1:1: nobody answers there");
}

TEST_F(MlflowServerTest, StopEndsTheRequestThatWaits) {
  EchoServer echo;
  const auto server = open_mlflow_server(echo.uri(), {});
  auto answer = std::async(std::launch::async, [&] { return server->ask({"GET", "/slow"}); });
  echo.wait_until_asked();
  server->stop();
  EXPECT_FALSE(answer.get());
  echo.release();
  EXPECT_FALSE(server->ask({"GET", "/"}));
}

TEST_F(MlflowServerTest, TheAccountComesFromVariablesOrAFile) {
  const auto none = access({}, {});
  ASSERT_TRUE(none);
  EXPECT_FALSE(none->shows_secret());
  const Variables variables = {{"MLFLOW_TRACKING_USERNAME", "ada"},
                               {"MLFLOW_TRACKING_PASSWORD", "1815"},
                               {"MLFLOW_TRACKING_TOKEN", "t"}};
  const auto all = access({}, variables);
  ASSERT_TRUE(all);
  EXPECT_EQ(all->token + all->user + all->password, "tada1815");
  job::MlflowSpec spec;
  spec.token_file = write("token", " secret\n");
  const auto file = access(spec, variables);
  ASSERT_TRUE(file);
  EXPECT_EQ(file->token + file->user, "secret");
}

TEST_F(MlflowServerTest, WhatIsWrongWithTheAccountIsNamed) {
  const auto half = access({}, {{"MLFLOW_TRACKING_USERNAME", "ada"}});
  ASSERT_FALSE(half);
  EXPECT_THAT(half.error().message, HasSubstr("belong together"));
  job::MlflowSpec spec;
  spec.token_file = write("token", "\n");
  const auto empty = access(spec, {});
  ASSERT_FALSE(empty);
  EXPECT_THAT(empty.error().message, HasSubstr("token is empty"));
  const auto authority = access({}, {{"MLFLOW_TRACKING_SERVER_CERT_PATH", "/nonexistent"}});
  ASSERT_FALSE(authority);
  EXPECT_EQ(authority.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(authority.error().message,
              AllOf(HasSubstr("MLFLOW_TRACKING_SERVER_CERT_PATH"), HasSubstr("/nonexistent")));
}

TEST_F(MlflowServerTest, AnAccountThatCanBeReadOnItsWayIsWarnedOf) {
  const auto warning = [](const std::string& uri, const MlflowAccess& access) {
    job::MlflowSpec spec;
    spec.tracking_uri = uri;
    return warning_of_open_secret(spec, access);
  };
  EXPECT_THAT(warning("http://tracking:5000", {.token = "t"}), HasSubstr("https://"));
  EXPECT_EQ(warning("http://tracking:5000", {}), "");
  EXPECT_EQ(warning("http://127.0.0.1:5000", {.token = "t"}), "");
  EXPECT_EQ(warning("https://tracking", {.token = "t"}), "");
}

}  // namespace
}  // namespace muster::app
