#include "muster/app/worker/control_sink.h"

#include "muster/observe/record_codec.h"

namespace muster::app {
namespace {

class ControlSink final : public observe::Sink {
 public:
  explicit ControlSink(cluster::Member& member) : member_(member) {}
  void take(const observe::Record& record) noexcept override {
    try {
      member_.report(observe::encode({&record, 1}));
    } catch (const std::exception&) {
      // Out of memory for a metric: the training is worth more than its record.
    }
  }

 private:
  cluster::Member& member_;
};

}  // namespace

std::shared_ptr<observe::Sink> create_control_sink(cluster::Member& member) {
  return std::make_shared<ControlSink>(member);
}

}  // namespace muster::app
