#include "muster/app/probe/probe.h"

#include <gtest/gtest.h>
#include <httplib.h>

#include <atomic>

#include "muster/testing/temp_folder.h"

namespace muster::app {
namespace {

using std::chrono::milliseconds;

// Answers of one probe, in order.
class Answers {
 public:
  std::function<void(const Answer&)> take() {
    return [this](const Answer& answer) {
      const std::lock_guard lock(mutex_);
      all_.push_back(answer);
      changed_.notify_all();
    };
  }
  std::vector<Answer> wait(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(30), [&] { return all_.size() >= count; });
    return all_;
  }
  bool empty() {
    const std::lock_guard lock(mutex_);
    return all_.empty();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Answer> all_;
};

class ProbeTest : public ::testing::Test {
 protected:
  std::unique_ptr<Probe> ask(ProbeSpec spec) {
    return std::make_unique<Probe>(std::move(spec), milliseconds(5), answers_.take(),
                                   system_processes(), system_files(), create_null_logger());
  }
  ProbeSpec file(const Path& path) { return {.file = path.string(), .command = "", .url = ""}; }
  ProbeSpec command(const std::string& text) { return {.file = "", .command = text, .url = ""}; }
  ProbeSpec url(const std::string& text) { return {.file = "", .command = "", .url = text}; }

  testing::TempFolder folder_;
  Answers answers_;
};

TEST_F(ProbeTest, AFileAnswersOnceItIsThere) {
  const Path path = folder_.path() / "notice";
  const auto probe = ask(file(path));
  std::this_thread::sleep_for(milliseconds(30));
  EXPECT_TRUE(answers_.empty());
  ASSERT_TRUE(write_atomically(system_files(), path, " terminate \n"));
  const auto answers = answers_.wait(1);
  ASSERT_FALSE(answers.empty());
  EXPECT_EQ(answers[0].text, "terminate");
  EXPECT_EQ(answers[0].from, "file " + path.string());
  EXPECT_EQ(answers[0].asked, Asked::kFile);
}

TEST_F(ProbeTest, ACommandAnswersWithWhatItPrints) {
  const auto probe = ask(command("echo 3; echo noise >&2"));
  const auto answers = answers_.wait(2);
  EXPECT_EQ(answers.at(1).text, "3");
  EXPECT_EQ(answers.at(1).asked, Asked::kCommand);
}

TEST_F(ProbeTest, ACommandThatEndsWithOneHasNoAnswer) {
  const Path path = folder_.path() / "count";
  const auto probe =
      ask(command("n=$(cat " + path.string() + " 2>/dev/null || echo 0); echo $((n+1)) >" +
                  path.string() + "; [ $n -ge 3 ] && echo enough"));
  EXPECT_EQ(answers_.wait(1).at(0).text, "enough");
}

TEST_F(ProbeTest, ACommandThatHangsDoesNotHoldUpTheEnd) {
  const TimePoint began = system_clock().now();
  {
    const auto probe = ask(command("touch " + (folder_ / "begun").string() + "; sleep 1000"));
    while (!system_files().exists(folder_ / "begun")) std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_LT(system_clock().now() - began, std::chrono::seconds(4));
}

TEST_F(ProbeTest, AnAddressAnswersWithItsBody) {
  httplib::Server server;
  std::atomic<int> status = 404;
  server.Get("/notice", [&](const httplib::Request& request, httplib::Response& response) {
    EXPECT_EQ(request.get_header_value("Metadata-Flavor"), "Google");
    EXPECT_EQ(request.get_header_value("Metadata"), "true");
    EXPECT_EQ(request.get_param_value("api-version"), "2020-07-01");
    response.status = status;
    response.set_content("TRUE\n", "text/plain");
  });
  const int port = server.bind_to_any_port("127.0.0.1");
  std::jthread serving([&] { server.listen_after_bind(); });
  {
    const auto probe =
        ask(url("http://127.0.0.1:" + std::to_string(port) + "/notice?api-version=2020-07-01"));
    std::this_thread::sleep_for(milliseconds(50));
    EXPECT_TRUE(answers_.empty());
    status = 500;
    std::this_thread::sleep_for(milliseconds(50));
    EXPECT_TRUE(answers_.empty());
    status = 200;
    const auto answers = answers_.wait(1);
    EXPECT_EQ(answers.at(0).text, "TRUE");
    EXPECT_EQ(answers.at(0).asked, Asked::kAddress);
  }
  server.stop();
}

TEST_F(ProbeTest, WhatCannotBeAskedIsNoAnswer) {
  const auto nobody = ask(url("http://127.0.0.1:1/"));
  const auto broken = ask(command("exit 7"));
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_TRUE(answers_.empty());
}

}  // namespace
}  // namespace muster::app
