#pragma once
// What `muster launch` is told: torchrun's flags and, where one is not given, torchrun's variable
// for it (PET_*).

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/result.h"

namespace muster::cli {

// As on the command line; empty: not given.
struct LaunchFlags {
  std::string per_node = {};
  std::string nodes = {};
  std::string node_rank = {};
  std::string endpoint = {};  // HOST[:PORT] of the first node
  std::string master_host = {};
  std::string master_port = {};
  std::string local_host = {};  // address of this node
  std::string id = {};
  std::string max_restarts = {};
  std::string log_folder = {};
  std::string redirects = {};
  std::string tee = {};
  std::string role = {};
  std::vector<std::string> without_effect = {};  // names of flags that change nothing here
};

// What was said, and where.
struct LaunchWord {
  std::string text;
  std::string where;
};

class LaunchWords {
 public:
  // `environment` has to outlive it.
  explicit LaunchWords(const std::map<std::string, std::string>& environment)
      : environment_(environment) {}

  // The value of `flag` ("--node-rank"), or its variable's (PET_NODE_RANK); none: neither is set.
  std::optional<LaunchWord> read(const std::string& value, const std::string& flag) const;

 private:
  const std::map<std::string, std::string>& environment_;
};

Error not_as_expected(const LaunchWord& word, const std::string& expected);  // kInvalid

}  // namespace muster::cli
