#pragma once
// The way to a tracking server: the seam at which tests put one of their own.

#include <string>

#include "muster/base/result.h"

namespace muster::observe {

struct MlflowRequest {
  std::string method;  // GET, POST, PUT
  std::string path;    // from /api on
  std::string body = {};
  std::string content_type = "application/json";
};

struct MlflowAnswer {
  int status = 0;
  std::string body;
};

class MlflowServer {
 public:
  virtual ~MlflowServer() = default;
  // One at a time. kUnavailable: nobody answered, by a deadline of its own; kInvalid: who answered
  // is not trusted.
  virtual Result<MlflowAnswer> ask(const MlflowRequest& request) = 0;
  // Ends the ask() that waits, and all later ones. Any thread.
  virtual void stop() noexcept = 0;
};

}  // namespace muster::observe
