#pragma once
// The endpoint from which Prometheus fetches a run's numbers: GET /metrics, and nothing else.

#include <functional>
#include <memory>
#include <string>

#include "muster/app/serve/http_server.h"
#include "muster/base/files.h"
#include "muster/base/result.h"
#include "muster/job/spec.h"

namespace muster::app {

// Answers with what `text` says, which must be thread-safe, until the server goes. kUnavailable:
// the port cannot be had; kInvalid, kNotFound: the token, certificate or key cannot be read.
Result<std::unique_ptr<HttpServer>> open_metrics_endpoint(const job::PrometheusSpec& spec,
                                                          std::function<std::string()> text,
                                                          Files& files);

}  // namespace muster::app
