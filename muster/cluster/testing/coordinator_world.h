#pragma once
// The coordinator's state machine with a clock that only tests move: what it sends, whom it refuses
// and what it tells are kept.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "muster/cluster/coordinator.h"

namespace muster::cluster {

using Told = std::vector<std::string>;

class CoordinatorStateTest : public ::testing::Test {
 protected:
  CoordinatorStateTest() {
    events_.on_generation = [this](const Welcome& w) { note("generation", to_int(w.generation)); };
    events_.on_lost = [this](std::int32_t worker, const Error& why) {
      note(why.code == ErrorCode::kTimeout ? "silent" : "lost", worker);
    };
    events_.on_leave = [this](std::int32_t worker, const Leave&) { note("left", worker); };
    events_.on_join_timeout = [this](const Error& why) { told_.push_back(why.message); };
    make(2);
  }

  void make(std::int32_t workers) {
    CoordinatorOptions options;
    options.policy.min_workers = options.policy.max_workers = workers;
    options.policy.heartbeat_timeout = std::chrono::seconds(10);
    options.join_timeout = std::chrono::seconds(60);
    state_ = std::make_unique<CoordinatorState>(options, now_, create_null_logger());
  }
  template <class Number>
  void note(const std::string& what, Number number) {
    told_.push_back(what + " " + std::to_string(number));
  }
  void perform(const std::vector<Action>& actions) {
    for (const auto& action : actions) {
      if (const auto* send = std::get_if<SendAction>(&action))
        sent_[send->to].push_back(send->message);
      else if (const auto* close = std::get_if<CloseAction>(&action))
        closed_[close->peer] = close->why;
      else
        std::get<TellAction>(action).tell(events_);
    }
  }
  void say(PeerId peer, const Message& message) {
    perform(state_->on_message(peer, message, now_));
  }
  // Waking whenever something is due, as who does not sleep.
  void pass(Duration time) {
    for (const TimePoint end = now_ + time; now_ < end;) {
      now_ = std::min(end, state_->next_clock(now_));
      perform(state_->on_clock(now_));
    }
  }
  void join(PeerId peer, std::int32_t worker) { say(peer, Join{{worker, "h", "b", 1, {}}}); }
  Told told() { return std::exchange(told_, {}); }

  TimePoint now_{std::chrono::seconds(100)};
  CoordinatorEvents events_;
  std::unique_ptr<CoordinatorState> state_;
  Told told_;
  std::map<PeerId, std::vector<Message>> sent_;
  std::map<PeerId, Error> closed_;
};

// Of three workers, of whom one is enough.
class ElasticCoordinatorTest : public CoordinatorStateTest {
 protected:
  ElasticCoordinatorTest() {
    CoordinatorOptions options;
    options.policy.start_workers = options.policy.max_workers = 3;
    options.policy.min_workers = 1;
    options.policy.heartbeat_timeout = std::chrono::seconds(10);
    state_ = std::make_unique<CoordinatorState>(options, now_, create_null_logger());
    events_.on_drain = [this](std::int32_t worker, Departure how) {
      constexpr const char* kHow[] = {"drains", "hands over", "stays"};
      note(kHow[static_cast<std::size_t>(how)], worker);
    };
    events_.on_stay = [this](std::int32_t worker) { note("is kept", worker); };
    for (std::int32_t worker = 0; worker < 3; ++worker)
      join(static_cast<PeerId>(worker + 1), worker);
    told();
    sent_.clear();
    pass(std::chrono::seconds(5));
  }
  void close(PeerId peer) { perform(state_->on_closed(peer, {}, now_)); }
  Welcome last_welcome(PeerId peer) { return std::get<Welcome>(sent_[peer].back()); }
};

}  // namespace muster::cluster
