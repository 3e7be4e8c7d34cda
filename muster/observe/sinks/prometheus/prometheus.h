#pragma once
// The present numbers of a run in Prometheus's text format (version 0.0.4:
// https://prometheus.io/docs/instrumenting/exposition_formats/), for an endpoint that is scraped.

#include <memory>
#include <string>
#include <string_view>

#include "muster/observe/hub.h"

namespace muster::observe {

// Thread-safe; take() only notes numbers, so it needs no QueuedSink.
class PrometheusSink : public Sink {
 public:
  virtual void set_workers(std::int64_t workers) noexcept = 0;  // that train now
  // Every metric as it was told last, and how far the run is. Labelled with the job's name and the
  // run; empty until it has begun.
  virtual std::string text() const = 0;
};

std::shared_ptr<PrometheusSink> create_prometheus_sink();

// "train/loss" is "muster_train_loss": what Prometheus takes no name with becomes an underscore.
std::string prometheus_name(std::string_view metric);

}  // namespace muster::observe
